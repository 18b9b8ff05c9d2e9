// Behavior when PostgreSQL servers stop, start or no longer respond, and when connections break before a reply.
import { readFileSync, writeFileSync } from 'node:fs'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { startWorker } from '../../../backend/background/worker.ts'
import { type OpenDatabase, openDatabase } from '../../../backend/database/open.ts'
import type { Reader } from '../../../backend/database/tables.ts'
import { createIdempotency } from '../../../backend/idempotency/idempotency.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { startCuttingProxy } from '../../fixtures/servers/cutting-proxy.ts'
import { startLink } from '../../fixtures/servers/link.ts'
import { copyTemplate, startPostgres } from '../../fixtures/servers/postgres.ts'
import { startPostgresPair } from '../../fixtures/servers/postgres-pair.ts'
import { insertRow, openTestDatabase, readRowIds, SILENT } from '../../fixtures/service/database.ts'
import { connect } from '../../fixtures/service/two-backends.ts'
import { until } from '../../fixtures/service/until.ts'

const UNAVAILABLE = { code: 'service_unavailable', headers: { 'retry-after': '1' } }

/** A commit as it is sent. The NUL distinguishes it from `begin isolation level read committed`. */
const COMMIT = 'commit\0'

const server = await startPostgres()
t.teardown(() => server.remove())

async function createDatabase(): Promise<URL> {
  return new URL((await copyTemplate(server.url('postgres'))).url)
}

/** Creates a database, with a proxy that can cut the connections to it. */
async function startProxy(t: Test) {
  const url = await createDatabase()
  const directUrl = url.href
  const proxy = await startCuttingProxy(t, server.port)
  url.port = String(proxy.port)
  return { proxy, directUrl, proxyUrl: url.href }
}

async function openOverProxy(t: Test, waitMsMax = 5000) {
  const { proxy, proxyUrl } = await startProxy(t)
  return { proxy, database: await openTestDatabase(t, { url: proxyUrl, waitMsMax }) }
}

// Regression: a transaction that wrote nothing could commit, and its success cleared the fault that `/readyz` and
// alerts report.
t.test(
  'writes that wait for a lost synchronous standby are reported until the standby is back',
  async (t) => {
    const pair = await startPostgresPair(t)
    const database = await openTestDatabase(t, { url: pair.url, waitMsMax: 500 })
    const isReported = () =>
      database.fault?.message === 'commits wait for the synchronous standby, which does not respond'
    await database.transaction((tx) => insertRow(tx, 'on both'))
    await pair.standby.stop('SIGQUIT')
    const waiting = database.transaction((tx) => insertRow(tx, 'on one')).catch(() => {})
    await until(isReported, 'the fault is reported')
    await database.transaction(async () => {})
    t.ok(isReported())
    await pair.standby.start()
    await waiting
    await until(() => canWrite(database), 'writes succeed again')
    await until(() => database.fault === undefined, 'the fault is cleared')
  },
)

/** Tries a write that changes no value, so that it can be repeated even if its outcome is unknown. */
async function canWrite(database: OpenDatabase): Promise<boolean> {
  return database
    .transaction((tx) =>
      tx
        .updateTable('audit_log')
        .set(({ ref }) => ({ detail: ref('detail') }))
        .execute(),
    )
    .then(
      () => true,
      () => false,
    )
}

// Regression: the connection of the first poll stayed open, and kept the process running.
t.test('a database that is closed while it connects leaves no connection open', async (t) => {
  const { proxy, directUrl, proxyUrl } = await startProxy(t)
  // On a busy machine, the first poll may connect before the database is open.
  const polled = proxy.untilSent('poll\0')
  const database = await openTestDatabase(t, { url: proxyUrl })
  await polled
  await database.close()
  const admin = await connect(t, directUrl)
  const sessions = async () => {
    const { rowCount } = await admin.query(
      'select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    return rowCount
  }
  await until(async () => (await sessions()) === 0, 'no session is left')
})

t.test('the database works again after its server has crashed and restarted', async (t) => {
  const database = await openTestDatabase(t, { url: (await createDatabase()).href, waitMsMax: 500 })
  await database.transaction((tx) => insertRow(tx, 'acknowledged'))
  const written = Promise.withResolvers<void>()
  const mayCommit = Promise.withResolvers<void>()
  let runs = 0
  const interrupted = database.transaction(async (tx) => {
    runs += 1
    await insertRow(tx, 'interrupted')
    written.resolve()
    await mayCommit.promise
  })
  await written.promise
  await server.stop('SIGQUIT')
  mayCommit.resolve()
  await rejectsWith(t, interrupted, UNAVAILABLE)
  t.equal(runs, 1, 'the transaction is not run again, because no server is available')
  await rejectsWith(t, readRowIds(database), UNAVAILABLE)
  t.ok(database.fault)
  await server.start()
  await until(() => canWrite(database), 'writes succeed again')
  t.strictSame(await readRowIds(database), ['acknowledged'])
  t.equal(database.fault, undefined)
})

/** Creates a database whose URL has a role that may open only `connections` connections. Superusers have no limit. */
async function createLimitedDatabase(t: Test, connections: number) {
  const url = await createDatabase()
  const operator = await connect(t, url.href)
  const role = `limited_${connections}`
  await operator.query(`create role ${role} login connection limit ${connections}`)
  await operator.query(`grant pg_read_all_data, pg_write_all_data to ${role}`)
  url.username = role
  return { url, role, operator }
}

// Regression: each transaction or read for which no further connection could be opened failed.
t.test('transactions and reads use open connections if the server accepts no more', async (t) => {
  const { url } = await createLimitedDatabase(t, 8)
  const database = await openTestDatabase(t, { url: url.href, connectionsMax: 40 })
  await database.transaction((tx) => insertRow(tx, 'a'))
  await readRowIds(database)
  const pidOf = (from: Reader) =>
    from
      .selectFrom('audit_log')
      .select([sql<number>`pg_backend_pid()`.as('pid'), sql`pg_sleep(0.02)::text`.as('slept')])
      .executeTakeFirstOrThrow()
  const many = <T>(run: () => Promise<T>) => Promise.all(Array.from({ length: 60 }, run))
  const writers = await many(() => database.transaction((tx) => pidOf(tx)))
  const readers = await many(() => pidOf(database.read))
  for (const pids of [writers, readers]) {
    const used = new Set(pids.map(({ pid }) => pid)).size
    t.ok(used >= 1 && used <= 8, `${used} connections`)
  }
  t.equal(database.fault, undefined)
})

// Regression: if the server had rejected the connections of several reads with the same SQL text, some of these reads
// never ended, neither with rows nor with an error.
t.test('each read that waits too long for a connection to a full server fails', async (t) => {
  // The poll, one writer, one reader and the client below use all connections.
  const { url, role, operator } = await createLimitedDatabase(t, 4)
  const database = await openTestDatabase(t, { url: url.href, waitMsMax: 2000, connectionsMax: 40 })
  await database.transaction((tx) => insertRow(tx, 'a'))
  await readRowIds(database)
  await connect(t, url.href)
  const read = (column: 'id' | 'action', seconds = 0) =>
    database.read
      .selectFrom('audit_log')
      .select([column, sql`pg_sleep(${seconds})::text`.as('slept')])
      .execute()
  const slow = read('id', 7).catch(() => {})
  const waiting = []
  for (let count = 0; count < 10; count++) {
    waiting.push(read(count % 2 === 0 ? 'id' : 'action'))
    // Without this, the time limits of all reads would end at once.
    await operator.query('select')
  }
  const outcomes = await Promise.allSettled(waiting)
  t.ok(outcomes.every(({ status }) => status === 'rejected'))
  await operator.query(`select pg_cancel_backend(pid) from pg_stat_activity
    where usename = '${role}' and state = 'active'`)
  await slow
})

t.test('an orderly restart of the server causes no error', async (t) => {
  const database = await openTestDatabase(t, { url: (await createDatabase()).href })
  await database.transaction((tx) => insertRow(tx, 'a'))
  await readRowIds(database)
  await server.stop('SIGINT')
  await server.start()
  const [read] = await Promise.all([
    readRowIds(database),
    database.transaction((tx) => insertRow(tx, 'b')),
  ])
  t.ok(read.includes('a'))
  t.strictSame(await readRowIds(database), ['a', 'b'])
})

t.test('a transaction whose connection is lost before the commit is run again', async (t) => {
  const { database, proxy } = await openOverProxy(t)
  for (const [moment, id] of [
    ['before', 'a'],
    ['after', 'b'],
  ] as const) {
    proxy.cutAt('insert into', moment)
    await database.transaction((tx) => insertRow(tx, id))
  }
  t.strictSame(await readRowIds(database), ['a', 'b'])
})

t.test('a commit that is lost on the way to the server has an unknown outcome', async (t) => {
  const { database, proxy } = await openOverProxy(t)
  proxy.cutAt(COMMIT, 'before')
  await rejectsWith(
    t,
    database.transaction((tx) => insertRow(tx, 'a')),
    { code: 'gateway_timeout' },
  )
  t.strictSame(await readRowIds(database), [])
})

t.test(
  'a commit whose reply is lost has an unknown outcome, which a retry with the same key reveals',
  async (t) => {
    const { database, proxy } = await openOverProxy(t)
    const clock = () => new Date('2026-11-21T10:15:00.000Z')
    const { id: accountId } = await database.transaction((tx) =>
      createAccount(tx, { name: 'Acme' }, { actor: OPERATOR, now: clock() }),
    )
    const { once } = createIdempotency({ database, clock })
    const attempt = { accountId, operation: 'createDebtor', key: 'k', fingerprint: 'f' }
    let runs = 0
    const write = {
      prepare: () => async () => {
        runs += 1
        return { resourceId: 'deb_1', body: `response ${runs}` }
      },
      recall: async () => undefined,
      originalIdMember: 'original_id',
    }
    // Earlier statements are sent together with the commit, so the cut waits for the reply to the commit.
    proxy.cutAt(COMMIT, 'after', 'COMMIT\0')
    await rejectsWith(t, once(attempt, write), {
      code: 'gateway_timeout',
      message: /same Idempotency-Key/,
    })
    matches(t, await once(attempt, write), { replayed: true, body: 'response 1' })
    t.equal(runs, 1)
  },
)

t.test(
  'calls to a server that accepts connections but does not respond fail with 503',
  async (t) => {
    const { database, proxy } = await openOverProxy(t, 100)
    proxy.silence()
    const outcomes = await Promise.allSettled([
      database.transaction((tx) => insertRow(tx, 'a')),
      ...Array.from({ length: 20 }, () => readRowIds(database)),
    ])
    const codes = outcomes.map((outcome) =>
      outcome.status === 'rejected' ? outcome.reason.code : outcome.status,
    )
    t.strictSame([...new Set(codes)], ['service_unavailable'])
  },
)

// Regression: each dead connection was found only when a statement on it failed, after 9 s.
t.test('dead connections are replaced before statements fail on them', async (t) => {
  const url = await createDatabase()
  const link = await startLink(t, server.port)
  url.port = String(link.port)
  const database = await openTestDatabase(t, { url: url.href })
  const names = Array.from({ length: 8 }, (_, index) => `before-${index}`)
  await Promise.all(names.map((name) => database.transaction((tx) => insertRow(tx, name))))
  const polls = sql<{ n: number }>`select count(*)::int as n from pg_stat_activity
    where datname = current_database() and application_name like '%poll'`
  await until(
    async () => (await database.transaction((tx) => polls.execute(tx))).rows[0]?.n === 1,
    'the server is polled',
  )
  await readRowIds(database)
  link.stallOpenConnections()
  const [read] = await Promise.all([
    readRowIds(database),
    ...names.map((_, index) => database.transaction((tx) => insertRow(tx, `after-${index}`))),
  ])
  t.ok(names.every((name) => read.includes(name)))
  t.equal((await readRowIds(database)).length, 2 * names.length)
})

// Regression: PostgreSQL kept the locks for ten seconds, but other backends wait only three seconds for a lock.
t.test(
  'row locks of an unreachable backend are released before other backends stop waiting for them',
  async (t) => {
    const url = await createDatabase()
    const otherBackend = await openTestDatabase(t, { url: url.href })
    await otherBackend.transaction((tx) => insertRow(tx, 'shared'))
    const link = await startLink(t, server.port)
    url.port = String(link.port)
    const unreachable = await openTestDatabase(t, { url: url.href, waitMsMax: 100 })
    await until(
      () => canWrite(unreachable),
      'a connection is open; otherwise the next write could take more than 100 ms',
    )
    const lock = sql`select from audit_log where id = 'shared' for update`
    const locked = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    const interrupted = unreachable
      .transaction(async (tx) => {
        await lock.execute(tx)
        locked.resolve()
        await released.promise
      })
      .catch(() => {})
    await locked.promise
    link.stallOpenConnections()
    try {
      await otherBackend.transaction((tx) => lock.execute(tx))
    } finally {
      link.heal()
      released.resolve()
      await interrupted
    }
  },
)

t.test('a transaction is run again if an operator ends its session', async (t) => {
  const database = await openTestDatabase(t, { url: (await createDatabase()).href })
  await database.transaction((tx) => insertRow(tx, 'a'))
  let runs = 0
  await database.transaction(async (tx) => {
    runs += 1
    await insertRow(tx, 'b')
    if (runs === 1) await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx)
  })
  t.equal(runs, 2)
  t.strictSame(await readRowIds(database), ['a', 'b'])
})

t.test(
  'the error for an unreachable server contains its address, but not the password',
  async (t) => {
    const url = 'postgres://user:hidden@127.0.0.1:1/receivables'
    const error = await openDatabase({ url, log: SILENT, openedBy: 'backend' }).catch(String)
    matches(t, error, /cannot be reached.*127\.0\.0\.1:1/)
    t.notMatch(error, /hidden/)
  },
)

t.test('an error says that a password is missing', async (t) => {
  // Regression: it said only "SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string".
  const url = await createDatabase()
  const admin = await connect(t, url.href)
  await admin.query("create role with_password login password 'x'")
  const { rows } = await admin.query<{ hba_file: string }>('show hba_file')
  const file = rows[0]?.hba_file ?? ''
  const rules = readFileSync(file, 'utf8')
  writeFileSync(file, `host all with_password all scram-sha-256\n${rules}`)
  await admin.query('select pg_reload_conf()')
  url.username = 'with_password'
  for (const password of ['', ':']) {
    const address = url.href.replace('@', `${password}@`)
    const outcome = () =>
      openDatabase({ url: address, log: SILENT, openedBy: 'operator' }).then(
        (database) => database.close(),
        String,
      )
    // The server reads the file some time after the statement.
    await until(
      async () => /requires a password/.test(String(await outcome())),
      'the error says so',
    )
  }
})

// Regression: a backend whose clock was 40 days ahead deleted every stored response, event and session. Gateways did
// not use this backend, but its background work continued.
t.test(
  'background work is paused while the clock differs from the clock of PostgreSQL',
  async (t) => {
    let aheadMs = 40 * 86_400_000
    const database = await openDatabase({
      url: (await createDatabase()).href,
      log: SILENT,
      openedBy: 'backend',
      clock: () => new Date(Date.now() + aheadMs),
    })
    t.teardown(() => database.close())
    let rounds = 0
    const worker = startWorker({
      name: 'counting rounds',
      everyMs: 10,
      log: SILENT,
      database,
      async round() {
        rounds += 1
        return undefined
      },
    })
    t.teardown(() => worker.stop())
    matches(t, database.clockFault?.message, /3456000 s ahead of the clock of PostgreSQL/)
    aheadMs = -90_000
    await until(
      () => database.clockFault?.message.includes('90 s behind') === true,
      'the fault contains the new difference',
    )
    t.equal(rounds, 0)
    aheadMs = 5_000
    await until(() => rounds > 0, 'a round')
    t.equal(database.clockFault, undefined)
  },
)
