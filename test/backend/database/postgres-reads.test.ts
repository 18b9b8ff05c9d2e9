// Reads outside of transactions, which are grouped, pipelined, and sent to PostgreSQL on separate connections.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import t, { type Test } from 'tap'
import { findKeyById } from '../../../backend/api-keys/api-keys.ts'
import type { OpenDatabase, Reader } from '../../../backend/database/database.ts'
import { prepared, preparedPage } from '../../../backend/database/prepared.ts'
import { findDebtor, listDebtors } from '../../../backend/debtors/debtors.ts'
import { listInvoices } from '../../../backend/invoices/invoice-list.ts'
import { findInvoice } from '../../../backend/invoices/invoices.ts'
import { listMessages } from '../../../backend/messages/messages.ts'
import {
  findPaymentByIdempotencyKey,
  listPayments,
} from '../../../backend/payments/payment-list.ts'
import { rejectsWith } from '../../fixtures/matches.ts'
import { startCuttingProxy } from '../../fixtures/servers/cutting-proxy.ts'
import { copyTemplate, startPostgres } from '../../fixtures/servers/postgres.ts'
import { insertRow, openTestDatabase, readRowIds } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const server = await startPostgres({
  settings: ['shared_preload_libraries=pg_stat_statements', 'pg_stat_statements.track_planning=on'],
})
t.teardown(() => server.remove())

const findAuditRow = prepared((read: Reader, { id }: { id: string }) =>
  read.selectFrom('audit_log').selectAll().where('id', '=', id),
)

/** Fails for a row whose detail is not a number. */
const readNumber = prepared((read: Reader, { id }: { id: string }) =>
  read
    .selectFrom('audit_log')
    .select(sql<number>`cast(detail as integer)`.as('number'))
    .where('id', '=', id),
)

async function createDatabase(): Promise<URL> {
  return new URL((await copyTemplate(server.url('postgres'))).url)
}

async function openWithRows(t: Test, url: URL, details: Readonly<Record<string, string>> = {}) {
  const database = await openTestDatabase(t, { url: url.href })
  await database.transaction(async (tx) => {
    for (const [id, detail] of Object.entries(details)) await insertRow(tx, id, detail)
  })
  return database
}

async function connect(t: Test, url: URL): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url.href })
  client.on('error', () => {})
  await client.connect()
  t.teardown(() => client.end())
  return client
}

const idsOf = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id)

/** Starts `count` reads in one turn of the event loop. Resolves with the ids that each read found. */
async function readMany({ read }: OpenDatabase, count: number) {
  const ids = Array.from({ length: count }, (_, n) => `note_${n}`)
  return await Promise.all(ids.map(async (id) => idsOf(await findAuditRow(read, { id }))))
}

t.test('many reads in one turn of the event loop each get their own rows, as stored', async (t) => {
  const texts = ['', '"quoted" \\ \u2028 \u{1f600}', "it's $1", '{"json": [1]}', '{a,b}', 'null']
  const details = Array.from({ length: 100 }, (_, n) => [`note_${n}`, texts[n % texts.length]])
  const { read } = await openWithRows(t, await createDatabase(), Object.fromEntries(details))
  const ids = [...details.map(([id = '']) => id), 'note_absent', 'note_7', 'note_7']
  const found = await Promise.all(ids.map((id) => findAuditRow(read, { id })))
  const single = await Promise.all(
    ids.map((id) => read.selectFrom('audit_log').selectAll().where('id', '=', id).execute()),
  )
  t.strictSame(found, single, 'the same rows as without grouping')
  t.strictSame(
    found.map((rows) => rows.map(({ id, detail }) => [id, detail])),
    ids.map((id) => details.filter(([other]) => other === id)),
  )
})

t.test('equal reads in one turn of the event loop do not share row objects', async (t) => {
  const { read } = await openWithRows(t, await createDatabase(), { a: '{}' })
  const [[first], [second]] = await Promise.all([
    findAuditRow(read, { id: 'a' }),
    findAuditRow(read, { id: 'a' }),
  ])
  if (first !== undefined) first.detail = 'changed'
  t.equal(second?.detail, '{}')
})

t.test('a read that fails does not fail the reads that are sent with it', async (t) => {
  const { read } = await openWithRows(t, await createDatabase(), { a: '1', b: 'none', c: '3' })
  const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((id) => readNumber(read, { id })))
  t.strictSame(
    outcomes.map((outcome) =>
      outcome.status === 'fulfilled' ? outcome.value : outcome.reason.code,
    ),
    [[{ number: 1 }], '22P02', [{ number: 3 }]],
  )
})

t.test('a read that begins after a commit sees the new row, even under load', async (t) => {
  const database = await openWithRows(t, await createDatabase())
  let isReading = true
  const others = Array.from({ length: 20 }, async (_, n) => {
    while (isReading) await findAuditRow(database.read, { id: `note_${n}` })
  })
  for (let n = 0; n < 50; n++) {
    const id = await database.transaction((tx) => insertRow(tx, `note_${n}`))
    t.equal((await findAuditRow(database.read, { id })).length, 1, id)
  }
  isReading = false
  await Promise.all(others)
})

t.test(
  'a slow read delays no other reads, and is sent again once if its connection is lost',
  async (t) => {
    const url = await createDatabase()
    const { read } = await openWithRows(t, url, { a: '{}' })
    const operator = await connect(t, url)
    let isSettled = false
    const slow = read
      .selectFrom('audit_log')
      .select(sql`pg_sleep(600)`.as('slept'))
      .execute()
      .catch((error: unknown) => error)
      .finally(() => {
        isSettled = true
      })
    const sleeper = async () => {
      const { rows } = await operator.query<{ pid: number }>(
        `select pid from pg_stat_activity where state = 'active' and query like '%pg_sleep%'
        and datname = current_database() and pid <> pg_backend_pid()`,
      )
      return rows[0]?.pid
    }
    await until(async () => (await sleeper()) !== undefined, 'the slow statement runs')
    for (let n = 0; n < 100; n++) {
      const found = await Promise.all([
        findAuditRow(read, { id: 'a' }),
        findAuditRow(read, { id: 'absent' }),
        read.selectFrom('audit_log').select('id').execute(),
      ])
      t.strictSame(found.map(idsOf), [['a'], [], ['a']])
    }
    t.equal(isSettled, false)
    const first = await sleeper()
    await operator.query('select pg_terminate_backend($1)', [first])
    await until(
      async () => ![undefined, first].includes(await sleeper()),
      'a read whose connection is lost is sent again',
    )
    await operator.query('select pg_terminate_backend($1)', [await sleeper()])
    t.equal(
      Reflect.get(Object(await slow), 'code'),
      'service_unavailable',
      'the read is sent again only once',
    )
  },
)

t.test('reads continue while columns are added', async (t) => {
  const url = await createDatabase()
  const database = await openWithRows(t, url, { note_0: '{}' })
  const operator = await connect(t, url)
  await readMany(database, 3)
  await findAuditRow(database.read, { id: 'note_0' })
  let isReading = true
  const reading = Array.from({ length: 8 }, async () => {
    while (isReading) t.strictSame(await readMany(database, 2), [['note_0'], []])
  })
  for (let n = 0; n < 5; n++) {
    await operator.query(`alter table audit_log add column added_${n} text not null default 'new'`)
    const [row] = await findAuditRow(database.read, { id: 'note_0' })
    t.equal(Reflect.get(row ?? {}, `added_${n}`), 'new')
  }
  isReading = false
  await Promise.all(reading)
})

const FIRST_PAGE = { sort: 'created_at', direction: 'desc', rowsMax: 51, after: undefined } as const

// A prepared `select *` fails after a column is added, so each connection must run it a second time.
t.test('reads of the API cause no errors in PostgreSQL while columns are added', async (t) => {
  const url = await createDatabase()
  const database = await openTestDatabase(t, { url: url.href })
  const operator = await connect(t, url)
  const rolledBack = async () => {
    const { rows } = await operator.query<{ count: string }>(
      'select xact_rollback as count from pg_stat_database where datname = current_database()',
    )
    return rows[0]?.count
  }
  const sessions = async () => {
    const { rowCount } = await operator.query(
      `select from pg_stat_activity where datname = current_database()
        and backend_type = 'client backend' and pid <> pg_backend_pid()`,
    )
    return rowCount
  }
  const before = await rolledBack()
  const { read } = database
  const readAll = () =>
    Promise.all([
      ...['key_1', 'key_2'].map((id) => findKeyById(read, id)),
      ...['deb_1', 'deb_2'].map((id) => findDebtor(read, 'acc', id)),
      ...['inv_1', 'inv_2'].map((id) => findInvoice(read, 'acc', id)),
      ...['a', 'b'].map((key) => findPaymentByIdempotencyKey(read, 'acc', key)),
      listDebtors(read, 'acc', { status: 'active' }, '2026-11-21', FIRST_PAGE),
      listInvoices(read, 'acc', { currency: 'EUR' }, '2026-11-01', FIRST_PAGE),
      listPayments(read, 'acc', {}, FIRST_PAGE),
      listMessages(read, 'acc', {}, FIRST_PAGE),
    ])
  await readAll()
  for (const table of ['accounts', 'api_keys', 'debtors', 'invoices', 'payments', 'messages']) {
    await operator.query(`alter table ${table} add column added text`)
    await readAll()
  }
  // The server counts the errors of a session at the latest when the session ends.
  await database.close()
  await until(async () => (await sessions()) === 0, 'all sessions have ended')
  t.equal(await rolledBack(), before)
})

const readNotes = preparedPage((read: Reader, { after }: { after: string }, { fetch }: Fetch) =>
  read
    .selectFrom('audit_log')
    .select(['id', 'detail', 'subject_id', sql<number>`length(detail)::bigint`.as('length')])
    .where('id', '>', after)
    .orderBy('id')
    .limit(sql.lit(fetch)),
)

interface Fetch {
  readonly fetch: number
}

const listNotes = (read: Reader, after: string) => readNotes(read, { after }, { fetch: 3 })

t.test(
  'pages that are read concurrently have the same rows as pages that are read one by one',
  async (t) => {
    const texts = ['', '"quoted" \\ \u2028 \u{1f600}', "it's $1 and $2", '{"json": [1]}', 'null']
    const ids = Array.from({ length: 20 }, (_, n) => `note_${String(n).padStart(2, '0')}`)
    const details = Object.fromEntries(ids.map((id, n) => [id, texts[n % texts.length] ?? '']))
    const { read } = await openWithRows(t, await createDatabase(), details)
    const alone: unknown[] = []
    for (const id of ids) alone.push(await listNotes(read, id))
    t.equal(alone.flat().length, 54)
    t.strictSame(await Promise.all(ids.map((id) => listNotes(read, id))), alone)
    const [first, second] = await Promise.all([
      listNotes(read, 'note_00'),
      listNotes(read, 'note_00'),
    ])
    t.strictSame([first, second], [alone[0], alone[0]])
    t.not(first?.[0], second?.[0], 'equal pages share no row objects')
    t.equal(
      (await readNotes(read, { after: '' }, { fetch: 7 })).length,
      7,
      'a page with another limit has its own number of rows',
    )
  },
)

t.test('a number that cannot be represented exactly fails only its page', async (t) => {
  const { read } = await openWithRows(t, await createDatabase(), { a: '9007199254740993', b: '12' })
  const readNumbers = preparedPage((read: Reader, { id }: { id: string }, _: object) =>
    read
      .selectFrom('audit_log')
      .select(sql<number>`cast(detail as bigint)`.as('number'))
      .where('id', '=', id)
      .limit(1),
  )
  const page = (id: string) => readNumbers(read, { id }, {})
  t.strictSame(await page('b'), [{ number: 12 }])
  const [inexact, exact] = await Promise.allSettled([page('a'), page('b')])
  t.equal(Reflect.get(Object(inexact.status === 'rejected' && inexact.reason), 'name'), 'BadValue')
  t.strictSame(exact, { status: 'fulfilled', value: [{ number: 12 }] })
})

// Regression: parsing and planning a page cost the server twice as much as reading it.
t.test(
  'the plan of a page is reused, and equal pages in one turn of the event loop cause one statement',
  async (t) => {
    const url = await createDatabase()
    const { read } = await openWithRows(t, url, { a: '1', b: '2' })
    const operator = await connect(t, url)
    await operator.query('create extension pg_stat_statements')
    await listNotes(read, '')
    await operator.query('select pg_stat_statements_reset()')
    for (let n = 0; n < 20; n++) await listNotes(read, n % 2 === 0 ? '' : 'a')
    await Promise.all(Array.from({ length: 20 }, () => listNotes(read, '')))
    const { rows } = await operator.query<{ calls: number; plans: number }>(
      `select calls::integer, plans::integer from pg_stat_statements
      where query like '%json_agg%' and query not like '%pg_stat_statements%'`,
    )
    const [{ calls, plans } = { calls: 0, plans: 0 }, ...others] = rows
    t.strictSame(others, [])
    t.equal(calls, 21)
    // On each connection, PostgreSQL makes five plans for specific values before it caches a generic plan.
    t.ok(plans < calls, 'not every call is planned', { plans })
  },
)

t.test('a connection that is lost during grouped reads fails none of them', async (t) => {
  const url = await createDatabase()
  await openWithRows(
    t,
    url,
    Object.fromEntries(Array.from({ length: 64 }, (_, n) => [`note_${n}`, '{}'])),
  )
  const proxy = await startCuttingProxy(t, server.port)
  url.port = String(proxy.port)
  const database = await openTestDatabase(t, { url: url.href })
  const expected = Array.from({ length: 64 }, (_, n) => [`note_${n}`])
  for (const moment of ['before', 'after'] as const) {
    proxy.cutAt('note_63', moment)
    t.strictSame(await readMany(database, 64), expected, moment)
  }
})

t.test('reads fail while the server is a standby', async (t) => {
  const url = await createDatabase()
  const database = await openWithRows(t, url, { note_0: '{}' })
  t.strictSame(await readMany(database, 1), [['note_0']])
  await server.stop()
  writeFileSync(join(server.data, 'standby.signal'), '')
  await server.start()
  await rejectsWith(t, readMany(database, 1), { code: 'service_unavailable' })
  await rejectsWith(t, readRowIds(database), { code: 'service_unavailable' })
  const operator = await connect(t, url)
  t.strictSame((await operator.query('select id from audit_log')).rows, [{ id: 'note_0' }])
  await operator.query('select pg_promote()')
  t.strictSame(await readMany(database, 1), [['note_0']])
})
