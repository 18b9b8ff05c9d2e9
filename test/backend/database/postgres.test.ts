// Behavior of transactions, statements and types that is specific to PostgreSQL.
import { sql } from 'kysely'
import t from 'tap'
import type { Reader, Transaction } from '../../../backend/database/database.ts'
import { describeDatabase } from '../../../backend/database/open.ts'
import { prepared } from '../../../backend/database/prepared.ts'
import type { AuditRow } from '../../../backend/database/tables.ts'
import { rejectsWith, throwsWith } from '../../fixtures/matches.ts'
import { insertRow, openTestDatabase, readRowIds } from '../../fixtures/service/database.ts'
import { newPostgresUrl } from '../../fixtures/service/database-url.ts'
import { connect, openTwoDatabases } from '../../fixtures/service/two-backends.ts'
import { until } from '../../fixtures/service/until.ts'

const insertAuditRow = prepared((tx: Transaction, row: AuditRow) =>
  tx.insertInto('audit_log').values(row),
)

const findAuditRow = prepared((reader: Reader, { id }: { id: string }) =>
  reader.selectFrom('audit_log').selectAll().where('id', '=', id),
)

/** Finds the prepared statements of the connection that runs this one. */
const findPrepared = prepared((reader: Reader, { pattern }: { pattern: string }) =>
  reader
    .selectFrom(sql<{ statement: string }>`pg_prepared_statements`.as('kept'))
    .select('kept.statement')
    .where('kept.statement', 'like', pattern),
)

/** Copies a row under another id. The promise of the prepared insert resolves before its result arrives. */
async function copyAuditRow(tx: Transaction, from: string, id: string) {
  const [row] = await findAuditRow(tx, { id: from })
  if (row !== undefined) await insertAuditRow(tx, { ...row, id })
}

t.test('text columns of every table sort by code point', async (t) => {
  const client = await connect(t, await newPostgresUrl(t))
  const { rows } = await client.query(
    `select table_name, column_name from information_schema.columns
      where table_schema = 'public' and data_type = 'text' and collation_name is distinct from 'C'`,
  )
  t.strictSame(rows, [])
})

t.test('parameters of the URL apply, but replace none of the service', async (t) => {
  // Regression: with `options`, reads could write; a `+` became a space, and the text after a second `?` was lost.
  const url = await newPostgresUrl(t)
  const parameters = 'application_name=acme&statement_timeout=1&options=-c%20acme.note%3Da+b?c'
  const database = await openTestDatabase(t, { url: `${url}?${parameters}` })
  const setting = (name: string) => sql<string>`current_setting(${name})`.as(name)
  const names = ['application_name', 'statement_timeout', 'default_transaction_read_only']
  const row = await database.read
    .selectFrom(sql`(select)`.as('one'))
    .select([...names, 'acme.note'].map(setting))
    .executeTakeFirstOrThrow()
  t.strictSame(Object.values(row), ['receivables backend', '8s', 'on', 'a+b?c'])
  // Regression: a time limit in the URL also applied to migrations and exports, which must have none.
  const inSnapshot = await database.snapshot((read) =>
    read
      .selectFrom(sql`(select)`.as('one'))
      .select(setting('statement_timeout'))
      .executeTakeFirstOrThrow(),
  )
  t.strictSame(inSnapshot, { statement_timeout: '0' })
})

t.test('a space, a % and an @ of a login need not be encoded', async (t) => {
  // Regression: the driver decoded nothing, and an @ ended the login for all servers but the first. The first of these
  // two servers does not exist.
  const url = await newPostgresUrl(t)
  const admin = await connect(t, url)
  await admin.query('create role "a@b/c %" login superuser')
  t.teardown(() => admin.query('drop role "a@b/c %"'))
  const twoServers = url.replace(/\/\/.*@/, '//a@b%2Fc %@127.0.0.1:1,')
  const database = await openTestDatabase(t, { url: twoServers })
  const row = await database.read
    .selectFrom(sql`(select)`.as('one'))
    .select(sql<string>`current_user`.as('user'))
    .executeTakeFirstOrThrow()
  t.equal(row.user, 'a@b/c %')
  // Regression: with the second and the third, the service connected to port 1 of the host `a`.
  for (const login of ['a:%ff', 'a:1/2', 'a:1?2']) {
    const message = /not a valid PostgreSQL URL/
    throwsWith(t, () => describeDatabase(`postgres://${login}@host/b`), { message }, login)
  }
  for (const url of ['postgres://a:b@one,two:0/c', 'postgres://a:b@/c?host=/run&port=0']) {
    throwsWith(
      t,
      () => describeDatabase(url),
      { message: 'DATABASE_URL must not have the port 0: name the port of the server' },
      url,
    )
  }
  t.equal(
    describeDatabase('postgres://a@one:1, two:2/b'),
    'PostgreSQL, b at one:1 or two:2 as a',
    'spaces after the commas between servers are ignored',
  )
})

t.test('the URL of a socket may have a login', async (t) => {
  const { username, port, pathname } = new URL(await newPostgresUrl(t))
  // The parameter names the directory of a socket, or a host.
  const url = `postgres://${username}:p%23w@${pathname}?host=127.0.0.1&port=${port}`
  const database = await openTestDatabase(t, { url })
  await database.transaction((tx) => insertRow(tx, 'a'))
  t.strictSame(await readRowIds(database), ['a'])
  t.equal(describeDatabase(url), `PostgreSQL, ${pathname.slice(1)} at a socket:5432 as ${username}`)
})

t.test('a transaction rejects with the error of a prepared write that failed', async (t) => {
  const [database] = await openTwoDatabases(t)
  await database.transaction((tx) => insertRow(tx, 'a'))
  const violation = { name: 'ConstraintViolation', columns: ['audit_log.id'] }
  await rejectsWith(
    t,
    database.transaction((tx) => copyAuditRow(tx, 'a', 'a')),
    violation,
    'at the commit',
  )
  let steps = 0
  const readAfterFailedWrite = async (tx: Transaction) => {
    await insertRow(tx, 'b')
    await copyAuditRow(tx, 'a', 'a')
    steps += 1
    await copyAuditRow(tx, 'a', 'c').finally(() => {
      steps += 1
    })
  }
  await rejectsWith(t, database.transaction(readAfterFailedWrite), violation, 'at the next read')
  await rejectsWith(
    t,
    database.transaction(async (tx) => {
      await copyAuditRow(tx, 'a', 'a')
      await insertRow(tx, 'd')
    }),
    violation,
    'at the next write that waits for its result',
  )
  t.equal(steps, 2)
  t.strictSame(await readRowIds(database), ['a'])
})

t.test(
  'if a write violates a constraint, only this write is undone, even if others were sent with it',
  async (t) => {
    const [database] = await openTwoDatabases(t)
    await database.transaction((tx) => insertRow(tx, 'a'))
    await database.transaction(async (tx) => {
      await copyAuditRow(tx, 'a', 'b')
      const outcomes = await Promise.allSettled([
        insertRow(tx, 'a'),
        insertRow(tx, 'c'),
        copyAuditRow(tx, 'a', 'd'),
      ])
      t.strictSame(
        outcomes.map(({ status }) => status),
        ['rejected', 'fulfilled', 'fulfilled'],
      )
      await copyAuditRow(tx, 'a', 'e')
    })
    t.strictSame(await readRowIds(database), ['a', 'b', 'c', 'd', 'e'])
  },
)

t.test('a prepared read in a transaction succeeds after a column was added', async (t) => {
  const url = await newPostgresUrl(t)
  const database = await openTestDatabase(t, { url, connectionsMax: 3 })
  const operator = await connect(t, url)
  await database.transaction((tx) => insertRow(tx, 'a'))
  const find = () => database.transaction((tx) => findAuditRow(tx, { id: 'a' }))
  await find()
  await operator.query('alter table audit_log add column added text')
  const [row] = await find()
  t.strictSame(Reflect.get(row ?? {}, 'added'), null)
  await operator.query('alter table audit_log drop column added')
})

t.test('after columns were added, connections keep no outdated prepared statements', async (t) => {
  // Regression: each connection kept the plans of before, one for each time that the columns had changed.
  const url = await newPostgresUrl(t)
  const database = await openTestDatabase(t, { url, connectionsMax: 3 })
  const operator = await connect(t, url)
  await database.transaction((tx) => insertRow(tx, 'a'))
  for (const run of [
    (work: (reader: Reader) => Promise<unknown>) => database.transaction((tx) => work(tx)),
    (work: (reader: Reader) => Promise<unknown>) => work(database.read),
  ]) {
    for (const added of ['a', 'b', 'c']) {
      await run((reader) => findAuditRow(reader, { id: 'a' }))
      await operator.query(`alter table audit_log add column added_${added} text`)
    }
    await run((reader) => findAuditRow(reader, { id: 'a' }))
    await run(async (reader) => {
      const kept = await findPrepared(reader, { pattern: '%from "audit_log"%' })
      t.equal(kept.length, 1)
    })
    await operator.query(
      'alter table audit_log drop column added_a, drop column added_b, drop column added_c',
    )
  }
})

t.test('a number that cannot be represented exactly is an error, not rounded', async (t) => {
  const [database] = await openTwoDatabases(t)
  const select = (text: string) =>
    database.transaction(
      async (tx) => (await sql<{ n: number }>`${sql.raw(text)}`.execute(tx)).rows,
    )
  t.strictSame(await select('select 9007199254740991 as n, sum(1::bigint) as m'), [
    { n: 9_007_199_254_740_991, m: 1 },
  ])
  await rejectsWith(t, select('select 9007199254740993 as n'), { name: 'BadValue' })
  await rejectsWith(t, select('select 1.5::numeric as n'), { name: 'BadValue' })
})

t.test(
  'a transaction that continues after a failed read commits nothing and rejects',
  async (t) => {
    const [database] = await openTwoDatabases(t)
    await rejectsWith(
      t,
      database.transaction(async (tx) => {
        await insertRow(tx, 'a')
        await sql`select nonsense`.execute(tx).catch(() => 'ignored')
      }),
      { code: 'ERR_ASSERTION' },
    )
    t.strictSame(await readRowIds(database), [])
  },
)

t.test('a write outside of a transaction fails an assertion', async (t) => {
  const [database] = await openTwoDatabases(t)
  const reader = database.read as Parameters<typeof insertRow>[0]
  await rejectsWith(t, insertRow(reader, 'a'), { code: 'ERR_ASSERTION' })
  t.strictSame(await readRowIds(database), [])
})

t.test(
  'an account may use all connections, but a free one goes to the account that uses the fewest',
  async (t) => {
    const url = await newPostgresUrl(t)
    // Two connections are for reads.
    const database = await openTestDatabase(t, { url, connectionsMax: 6 })
    const begun: string[] = []
    const ends: (() => void)[] = []
    const long = Array.from({ length: 8 }, (_, n) =>
      database.transaction(
        () => {
          begun.push(`long ${n}`)
          const { promise, resolve } = Promise.withResolvers<void>()
          ends.push(resolve)
          return promise
        },
        { accountId: 'a' },
      ),
    )
    await until(() => begun.length === 4, 'the account uses all connections')
    const quick = Array.from({ length: 5 }, (_, n) =>
      database.transaction(async () => void begun.push(`quick ${n}`), { accountId: 'b' }),
    )
    t.equal(database.activity().waiting, 9)
    ends.shift()?.()
    await until(() => begun.length > 4, 'a connection is free')
    t.equal(begun[4], 'quick 0')
    await until(() => begun.length === 10, 'all quick transactions and a fifth long one began')
    t.strictSame(begun.slice(5), ['quick 1', 'quick 2', 'quick 3', 'quick 4', 'long 4'])
    while (ends.length > 0) {
      ends.shift()?.()
      await until(() => ends.length > 0 || begun.length === 13, 'the next one begins')
    }
    await Promise.all([...long, ...quick])
  },
)
