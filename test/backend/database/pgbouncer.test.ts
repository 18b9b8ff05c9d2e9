// Backends with a real PgBouncer in transaction mode, which has fewer sessions than there are concurrent calls.
import pg from 'pg'
import t, { type Test } from 'tap'
import { openDatabase } from '../../../backend/database/open.ts'
import { checkRoleLimits } from '../../../backend/database/postgres/sessions.ts'
import { rejectsWith } from '../../fixtures/matches.ts'
import { PGBOUNCER_PROBLEM, startPgbouncer } from '../../fixtures/servers/pgbouncer.ts'
import { copyTemplate, startPostgres } from '../../fixtures/servers/postgres.ts'
import { startBackend } from '../../fixtures/service/backend.ts'
import { insertRow, openTestDatabase, readRowIds, SILENT } from '../../fixtures/service/database.ts'

t.setTimeout(120_000)

const TIME_LIMITS = [
  'statement_timeout = 8000',
  'lock_timeout = 3000',
  'idle_in_transaction_session_timeout = 2500',
]

async function startPooled(t: Test, template?: string) {
  const server = await startPostgres()
  t.teardown(() => server.remove())
  const { url: directUrl } = await copyTemplate(server.url('postgres'), template)
  const { port } = await startPgbouncer(t, server.port)
  const url = new URL(directUrl)
  url.port = String(port)
  const run = async (statement: string, address = directUrl) => {
    const client = new pg.Client({ connectionString: address })
    await client.connect()
    try {
      return (await client.query(statement)).rows
    } finally {
      await client.end()
    }
  }
  // The changes are sequential, because PostgreSQL rejects concurrent changes of one role.
  const setTimeLimits = async () => {
    for (const setting of TIME_LIMITS) await run(`alter role tests set ${setting}`)
  }
  return { url: url.href, directUrl, run, setTimeLimits }
}

t.test('behind PgBouncer in transaction mode', { skip: PGBOUNCER_PROBLEM }, async (t) => {
  const { url, directUrl, run, setTimeLimits } = await startPooled(t)

  await t.test(
    'a role without time limits is rejected with a message that says what to do',
    async (t) => {
      await rejectsWith(t, openDatabase({ url, directUrl, openedBy: 'backend', log: SILENT }), {
        message:
          'With a pooler (DATABASE_DIRECT_URL is set), the time limits must be settings of the role. Run these statements, then reconnect the pooler: alter role tests set idle_in_transaction_session_timeout = 2500; alter role tests set lock_timeout = 3000; alter role tests set statement_timeout = 8000;',
      })
    },
  )

  // Regression: PostgreSQL rejected the statements for a role whose name needs quotes.
  await t.test('the statements that the message contains set the limits of any role', async (t) => {
    await run('create role "time-limited" login')
    const roleUrl = new URL(directUrl)
    roleUrl.username = 'time-limited'
    const check = () => checkRoleLimits(roleUrl.href, 'test', 3000)
    const message = await check().catch((error: Error) => error.message)
    await run(String(message).replace(/^.*pooler: /, ''))
    await t.resolves(check())
  })

  // Sessions that the pooler opened earlier do not have the limits.
  await setTimeLimits()
  await run(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where pid <> pg_backend_pid() and backend_type = 'client backend'`,
  )

  await t.test(
    'the address of a pooler is rejected if DATABASE_DIRECT_URL is not set',
    async (t) => {
      await rejectsWith(t, openDatabase({ url, openedBy: 'backend', log: SILENT }), {
        message:
          'The database cannot be reached: This is the address of a pooler. Set DATABASE_DIRECT_URL to the address of PostgreSQL itself.',
      })
    },
  )

  await t.test(
    'two backends handle concurrent payments on one invoice, repeated keys and reads',
    async (t) => {
      const connect = () => openTestDatabase(t, { url, directUrl })
      const first = await startBackend(t, { database: await connect() })
      const second = await startBackend(t, { database: await connect() })
      const key = await first.createKey()
      const backendFor = (n: number) => (n % 2 === 0 ? first : second)
      const post = (path: string, body: object, idempotencyKey: string, n = 0) =>
        backendFor(n).call(key, 'POST', `/api/v1/${path}`, {
          body,
          headers: { 'idempotency-key': idempotencyKey },
        })
      const concurrently = <T>(count: number, work: (n: number) => Promise<T>) =>
        Promise.all(Array.from({ length: count }, (_, n) => work(n)))
      const debtor_id = (await post('debtors', { name: 'Globex' }, 'debtor')).json['id']
      const invoice = { debtor_id, currency: 'EUR', amount: 10_000 }
      const invoice_id = (await post('invoices', invoice, 'invoice')).json['id']
      const body = { invoice_id, currency: 'EUR', amount: 100 }
      const [paid, read] = await Promise.all([
        concurrently(120, (n) => post('payments', body, `key-${n % 110}`, n)),
        concurrently(400, (n) => backendFor(n).call(key, 'GET', `/api/v1/invoices/${invoice_id}`)),
      ])
      t.strictSame([...new Set(read.map(({ status }) => status))], [200])
      const ids = paid.filter(({ status }) => status === 201).map(({ json }) => json['id'])
      t.equal(
        new Set(ids).size,
        100,
        'the payments cover the invoice exactly, and each key records at most one payment',
      )
      t.strictSame(
        [...new Set(paid.map(({ status, json }) => `${status} ${json['code'] ?? ''}`))].sort(),
        ['201 ', '422 payment_exceeds_balance'],
      )
      const { json } = await second.call(key, 'GET', `/api/v1/invoices/${invoice_id}`)
      t.strictSame([json['status'], json['amount_due']], ['paid', 0])
    },
  )

  await t.test(
    'a transaction that is rolled back does not affect the next transaction of the same session',
    async (t) => {
      const database = await openTestDatabase(t, { url, directUrl })
      const transactions = Array.from({ length: 20 }, (_, n) =>
        database.transaction(async (tx) => {
          await insertRow(tx, `note-${n}`)
          if (n % 2 === 1) throw new Error('thrown by the transaction')
        }),
      )
      await Promise.allSettled(transactions)
      t.strictSame((await readRowIds(database)).filter((id) => id.startsWith('note-')).length, 10)
    },
  )

  await t.test('sessions have the time limits of the role', async (t) => {
    const shown = await run(
      "select current_setting('statement_timeout') as s, current_setting('lock_timeout') as l",
      url,
    )
    t.strictSame(shown, [{ s: '8s', l: '3s' }])
  })
})

t.test(
  'three backends that start together behind PgBouncer migrate the database once',
  { skip: PGBOUNCER_PROBLEM },
  async (t) => {
    const { url, directUrl, setTimeLimits } = await startPooled(t, 'template1')
    await setTimeLimits()
    const opened = await Promise.all([1, 2, 3].map(() => openTestDatabase(t, { url, directUrl })))
    t.equal(opened.filter(({ migrated }) => migrated.length > 0).length, 1)
  },
)
