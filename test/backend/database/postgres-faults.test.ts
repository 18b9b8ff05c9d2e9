// A PostgreSQL server that stops, starts, falls silent, or loses what it was about to say.
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { type OpenDatabase, openDatabase } from '../../../backend/database/open.ts'
import { createIdempotency } from '../../../backend/idempotency/idempotency.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { startCuttingProxy } from '../../fixtures/servers/cutting-proxy.ts'
import { startLink } from '../../fixtures/servers/link.ts'
import { copyTemplate, startPostgres } from '../../fixtures/servers/postgres.ts'
import { startPostgresPair } from '../../fixtures/servers/postgres-pair.ts'
import { note, notes, openTestDatabase, SILENT } from '../../fixtures/service/database.ts'
import { connect } from '../../fixtures/service/two-backends.ts'
import { until } from '../../fixtures/service/until.ts'

const UNAVAILABLE = { code: 'service_unavailable', headers: { 'retry-after': '1' } }

/** As the statement ends on the wire; `begin isolation level read committed` has it too. */
const COMMIT = 'commit\0'

const server = await startPostgres()
t.teardown(() => server.remove())

async function newUrl(): Promise<URL> {
  return new URL((await copyTemplate(server.url('postgres'))).url)
}

/** A database whose connections go through a proxy. */
async function openCuttable(t: Test, waitMsMax = 5000) {
  const url = await newUrl()
  const direct = url.href
  const proxy = await startCuttingProxy(t, server.port)
  url.port = String(proxy.port)
  return { proxy, direct, database: await openTestDatabase(t, { url: url.href, waitMsMax }) }
}

// What wrote nothing committed, and hid the fault at once: neither `/readyz` nor an alert named it.
t.test(
  'writes that wait for a lost synchronous standby are reported until it is back',
  async (t) => {
    const pair = await startPostgresPair(t)
    const database = await openTestDatabase(t, { url: pair.url, waitMsMax: 500 })
    const reported = () =>
      database.fault?.message === 'commits wait for the synchronous standby, which does not respond'
    await database.transaction((tx) => note(tx, 'on both'))
    await pair.standby.stop('SIGQUIT')
    const waiting = database.transaction((tx) => note(tx, 'on one')).catch(() => {})
    await until(reported, 'the fault is reported')
    await database.transaction(async () => {})
    t.ok(reported())
    await pair.standby.start()
    await waiting
    await until(() => isBack(database), 'writes are back')
    await until(() => database.fault === undefined, 'the fault is over')
  },
)

async function isBack(database: OpenDatabase): Promise<boolean> {
  return database
    .transaction((tx) => note(tx, 'back'))
    .then(
      () => true,
      () => false,
    )
}

// The connection of the first poll stayed open, and with it the process.
t.test('a database that is closed while it connects leaves no connection', async (t) => {
  const { proxy, database, direct } = await openCuttable(t)
  await proxy.sent('poll\0')
  await database.close()
  const admin = await connect(t, direct)
  const sessions = async () => {
    const { rowCount } = await admin.query(
      'select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    return rowCount
  }
  await until(async () => (await sessions()) === 0, 'no session is left')
})

t.test('a server that crashes and comes back is met again, without help', async (t) => {
  const database = await openTestDatabase(t, { url: (await newUrl()).href, waitMsMax: 500 })
  await database.transaction((tx) => note(tx, 'acknowledged'))
  const written = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  let runs = 0
  const interrupted = database.transaction(async (tx) => {
    runs += 1
    await note(tx, 'interrupted')
    written.resolve()
    await gate.promise
  })
  await written.promise
  await server.stop('SIGQUIT')
  gate.resolve()
  await rejectsWith(t, interrupted, UNAVAILABLE)
  t.equal(runs, 1, 'with no server there is nothing to run it on again')
  await rejectsWith(t, notes(database), UNAVAILABLE)
  t.ok(database.fault)
  await server.start()
  await until(() => isBack(database), 'the database is written again')
  t.strictSame(await notes(database), ['acknowledged', 'back'])
  t.equal(database.fault, undefined)
})

t.test('a server that ends its sessions in order causes no error', async (t) => {
  const database = await openTestDatabase(t, { url: (await newUrl()).href })
  await database.transaction((tx) => note(tx, 'a'))
  await notes(database)
  await server.stop('SIGINT')
  await server.start()
  const [read] = await Promise.all([notes(database), database.transaction((tx) => note(tx, 'b'))])
  t.ok(read.includes('a'))
  t.strictSame(await notes(database), ['a', 'b'])
})

t.test('a connection lost before the commit: the transaction is run again', async (t) => {
  const { database, proxy } = await openCuttable(t)
  for (const [moment, id] of [
    ['before', 'a'],
    ['after', 'b'],
  ] as const) {
    proxy.cutAt('insert into', moment)
    await database.transaction((tx) => note(tx, id))
  }
  t.strictSame(await notes(database), ['a', 'b'])
})

t.test('a commit that never arrived is no less unknown', async (t) => {
  const { database, proxy } = await openCuttable(t)
  proxy.cutAt(COMMIT, 'before')
  await rejectsWith(
    t,
    database.transaction((tx) => note(tx, 'a')),
    { code: 'gateway_timeout' },
  )
  t.strictSame(await notes(database), [])
})

t.test(
  'a commit whose reply is lost has an unknown outcome, which the same key reveals',
  async (t) => {
    const { database, proxy } = await openCuttable(t)
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
        return { resourceId: 'deb_1', body: `answer ${runs}` }
      },
      recall: async () => undefined,
      originalMember: 'original_id',
    }
    // The statements before it are on their way together with it.
    proxy.cutAt(COMMIT, 'after', 'COMMIT\0')
    await rejectsWith(t, once(attempt, write), {
      code: 'gateway_timeout',
      message: /same Idempotency-Key/,
    })
    matches(t, await once(attempt, write), { replayed: true, body: 'answer 1' })
    t.equal(runs, 1)
  },
)

t.test('a server that takes connections and says nothing is 503 in time', async (t) => {
  const { database, proxy } = await openCuttable(t, 100)
  proxy.silence()
  const outcomes = await Promise.allSettled([
    database.transaction((tx) => note(tx, 'a')),
    ...Array.from({ length: 20 }, () => notes(database)),
  ])
  const reasons = outcomes.flatMap((outcome) =>
    outcome.status === 'rejected' ? [outcome.reason.code] : [],
  )
  t.ok(reasons.includes('service_unavailable'))
  t.strictSame([...new Set(reasons)], ['service_unavailable'])
})

// Each idle connection took 9 s to be found, by a statement that failed.
t.test('connections that lead nowhere are replaced before callers notice', async (t) => {
  const url = await newUrl()
  const link = await startLink(t, server.port)
  url.port = String(link.port)
  const database = await openTestDatabase(t, { url: url.href })
  const names = Array.from({ length: 8 }, (_, place) => `before-${place}`)
  await Promise.all(names.map((name) => database.transaction((tx) => note(tx, name))))
  const polls = sql<{ n: number }>`select count(*)::int as n from pg_stat_activity
    where datname = current_database() and application_name like '%poll'`
  await until(
    async () => (await database.transaction((tx) => polls.execute(tx))).rows[0]?.n === 1,
    'it is polled',
  )
  await notes(database)
  link.strand()
  const [read] = await Promise.all([
    notes(database),
    ...names.map((_, place) => database.transaction((tx) => note(tx, `after-${place}`))),
  ])
  t.ok(names.every((name) => read.includes(name)))
  t.equal((await notes(database)).length, 2 * names.length)
})

// PostgreSQL kept them for ten seconds, and others wait for three.
t.test('rows that a vanished backend had locked are released before others fail', async (t) => {
  const url = await newUrl()
  const other = await openTestDatabase(t, { url: url.href })
  await other.transaction((tx) => note(tx, 'shared'))
  const link = await startLink(t, server.port)
  url.port = String(link.port)
  const vanished = await openTestDatabase(t, { url: url.href, waitMsMax: 100 })
  await until(() => isBack(vanished), 'it is connected, within 100 ms')
  const lock = sql`select from audit_log where id = 'shared' for update`
  const locked = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const interrupted = vanished
    .transaction(async (tx) => {
      await lock.execute(tx)
      locked.resolve()
      await released.promise
    })
    .catch(() => {})
  await locked.promise
  link.strand()
  try {
    await other.transaction((tx) => lock.execute(tx))
  } finally {
    link.heal()
    released.resolve()
    await interrupted
  }
})

t.test('a session that an operator ends is replaced', async (t) => {
  const database = await openTestDatabase(t, { url: (await newUrl()).href })
  await database.transaction((tx) => note(tx, 'a'))
  let runs = 0
  await database.transaction(async (tx) => {
    runs += 1
    await note(tx, 'b')
    if (runs === 1) await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx)
  })
  t.equal(runs, 2)
  t.strictSame(await notes(database), ['a', 'b'])
})

t.test('a server that is not there is named, without the password', async (t) => {
  const url = 'postgres://user:hidden@127.0.0.1:1/receivables'
  const error = await openDatabase({ url, log: SILENT, user: 'backend' }).catch(String)
  matches(t, error, /cannot be reached.*127\.0\.0\.1:1/)
  t.notMatch(error, /hidden/)
})
