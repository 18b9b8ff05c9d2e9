// No call fails while a PostgreSQL database is migrated, even if the migration is killed.
// To run the test on a larger table:
// MIGRATION_ROWS=1000000 npm run -s test:postgres -- test/backend/database/postgres-migrations.test.ts
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import type { MigrationProgress } from '../../../backend/database/migrating/progress.ts'
import type { Migrations } from '../../../backend/database/migrating/run.ts'
import { index, transaction } from '../../../backend/database/migrating/steps.ts'
import { MIGRATIONS } from '../../../backend/database/migrations.ts'
import { migrateServer } from '../../../backend/database/postgres/migration.ts'
import { rejectsWith } from '../../fixtures/matches.ts'
import { startBackend } from '../../fixtures/service/backend.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { newBarePostgresUrl } from '../../fixtures/service/database-url.ts'
import { endWithThisProcess } from '../../fixtures/service/terminate-children.ts'
import { until } from '../../fixtures/service/until.ts'

const ROWS = Number(process.env['MIGRATION_ROWS'] ?? 20_000)
const PAYERS = 4
/** If the table has a million rows, a step can take minutes on a busy machine. */
const STEP_TIMEOUT_MS = 600_000

/** Starts a backend with `ROWS` payments, and opens a session of an operator. */
async function startWithPayments(t: Test) {
  const url = await newBarePostgresUrl(t)
  const backend = await startBackend(t, { database: await openTestDatabase(t, { url }) })
  const key = await backend.createKey()
  const created = await backend.call(key, 'POST', '/api/v1/debtors', { body: { name: 'Globex' } })
  const debtorId = String(created.json['id'])
  const connect = async () => {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    await client.connect()
    t.teardown(() => client.end())
    return client
  }
  const operator = await connect()
  // The trigger, which exists only in tests, would reject the backfill of the migration, because a backfill leaves
  // `revision` unchanged.
  await operator.query('drop trigger guard_change on payments')
  await operator.query(
    `insert into payments (id, account_id, debtor_id, amount, currency, unapplied_amount,
        received_on, method, reference, status, source, recorded_by, effects, metadata,
        created_at, updated_at)
      select 'pay_' || md5(n::text), $1, $2, 100, 'EUR', 0, '2026-01-01', 'other', 'ref ' || n,
        'recorded', 'import', '{}', '{}', '{}', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z'
      from generate_series(1, $3::integer) n`,
    [key.row.account_id, debtorId, ROWS],
  )
  return { url, backend, key, debtorId, operator, connect }
}

type Ledger = Awaited<ReturnType<typeof startWithPayments>>

/** Starts clients that alternately record a payment and read a list. `stop` resolves with all calls. */
function startPaying({ backend, key, debtorId }: Ledger) {
  const calls: { readonly status: number; readonly ms: number }[] = []
  let isPaying = true
  let payments = 0
  const timed = async (method: string, path: string, options = {}) => {
    const from = performance.now()
    const { status } = await backend.call(key, method, path, options)
    calls.push({ status, ms: performance.now() - from })
  }
  const pay = async () => {
    while (isPaying) {
      payments += 1
      const reference = `now-${payments}`
      const body = { debtor_id: debtorId, currency: 'EUR', amount: 100, reference }
      const headers = { 'idempotency-key': reference }
      await timed('POST', '/api/v1/payments', { body, headers })
      await timed('GET', '/api/v1/payments?limit=20')
      await nextTurn()
    }
  }
  const paying = Promise.all(Array.from({ length: PAYERS }, pay))
  return {
    /** Resolves after about `count` more payments and as many reads. */
    async waitForPayments(count: number) {
      const target = calls.length + 2 * count
      await until(() => calls.length >= target, `${count} payments`)
    },
    async stop() {
      isPaying = false
      await paying
      return { calls, payments }
    },
  }
}

function startMigrator(t: Test, url: string) {
  const child = spawn(process.execPath, ['test/fixtures/service/migrator.ts', url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  endWithThisProcess(child)
  const exited = once(child, 'exit')
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  return {
    exited,
    output: () => output,
    untilPrinted: (line: string) => until(() => output.includes(line), line, STEP_TIMEOUT_MS),
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

async function queryRows<R extends pg.QueryResultRow>(
  client: pg.Client,
  text: string,
): Promise<R[]> {
  return (await client.query<R>(text)).rows
}

/** Returns a quantile of the durations, in milliseconds. */
function quantile(calls: readonly { readonly ms: number }[], q: number): number {
  const sorted = calls.map(({ ms }) => ms).toSorted((a, b) => a - b)
  return Math.round(sorted[Math.floor(q * (sorted.length - 1))] ?? 0)
}

t.test(
  'payments succeed while a migration waits for a lock, builds an index, is killed and continues',
  async (t) => {
    const ledger = await startWithPayments(t)
    const { url, operator, connect } = ledger
    const payers = startPaying(ledger)

    t.comment('the migration waits for a table lock of another transaction; payments do not wait')
    const lockHolder = await connect()
    await lockHolder.query('begin; lock table payments in row exclusive mode')
    const first = startMigrator(t, url)
    await first.untilPrinted('waits for a lock')
    await payers.waitForPayments(100)

    t.comment(
      'the migration is killed while it builds an index, which waits for an older transaction',
    )
    const snapshot = await connect()
    await snapshot.query('begin isolation level repeatable read; select count(*) from accounts')
    await lockHolder.query('commit')
    const build = await until(
      async () => {
        const builds = await queryRows<{ pid: number }>(
          operator,
          `select pid from pg_stat_progress_create_index where phase = 'waiting for old snapshots'`,
        )
        return builds[0]
      },
      'the build of the index',
      STEP_TIMEOUT_MS,
    )
    const second = startMigrator(t, url)
    await second.untilPrinted('Another process migrates this database')
    await payers.waitForPayments(100)
    await second.kill()
    await first.kill()
    await operator.query('select pg_terminate_backend($1)', [build.pid])
    await until(async () => {
      const locks = await queryRows(operator, `select 1 from pg_locks where locktype = 'advisory'`)
      return locks.length === 0
    }, 'the session of the migration has ended')
    const SELECT_INVALID_INDEXES =
      'select indexrelid::regclass::text as name from pg_index where not indisvalid'
    t.strictSame(await queryRows(operator, SELECT_INVALID_INDEXES), [{ name: 'payments_by_label' }])
    await snapshot.query('commit')

    t.comment('the next run builds the index again, and is killed during the backfill')
    const third = startMigrator(t, url)
    await third.untilPrinted('payments_by_label was left unfinished')
    const SELECT_RECORD = `select * from schema_migrations where name = '9999-later'`
    await until(
      async () =>
        (await queryRows<{ position: string | null }>(operator, SELECT_RECORD))[0]?.position !==
        null,
      'the first batch of the backfill is recorded',
      STEP_TIMEOUT_MS,
    )
    await third.kill()

    t.comment('the last run completes the migration')
    const last = startMigrator(t, url)
    await last.exited
    t.ok(last.output().endsWith('migrated 9999-later\n'), last.output())
    const { calls, payments } = await payers.stop()
    t.strictSame([...new Set(calls.map(({ status }) => status))].sort(), [200, 201])
    t.strictSame(await queryRows(operator, SELECT_INVALID_INDEXES), [])
    t.strictSame(
      await queryRows(
        operator,
        `select count(case when label = reference then 1 end)::integer as filled,
        (select convalidated from pg_constraint where conname = 'payments_share_check') as checked
      from payments where reference like 'ref %'`,
      ),
      [{ filled: ROWS, checked: true }],
    )
    t.equal((await queryRows(operator, 'select from payments')).length, ROWS + payments)
    t.comment(
      `${ROWS} rows; ${calls.length} calls: median ${quantile(calls, 0.5)} ms, ` +
        `p99 ${quantile(calls, 0.99)} ms, longest ${quantile(calls, 1)} ms`,
    )
  },
)

const SILENT_PROGRESS: MigrationProgress = { note() {}, begin() {}, advance() {}, end() {} }

/** Selects the definitions of all columns, indexes and constraints. */
const SELECT_SCHEMA = `
  select table_name || '.' || column_name as name,
    concat_ws(' ', data_type, collation_name, is_nullable, column_default) as definition
  from information_schema.columns where table_schema = 'public' and table_name not like 'kysely%'
  union all select indexname, indexdef from pg_indexes
  where schemaname = 'public' and tablename not like 'kysely%'
  union all select conrelid::regclass || ' ' || conname, pg_get_constraintdef(oid) from pg_constraint
  where connamespace = 'public'::regnamespace and conrelid::regclass::text not like 'kysely%'
  order by name
`

t.test(
  'a database that was created before migrations had steps gets the current schema',
  async (t) => {
    const [released, fresh] = [await newBarePostgresUrl(t), await newBarePostgresUrl(t)]
    const migrateTo = (url: string, migrations: Migrations) =>
      migrateServer(url, 'test', { progress: SILENT_PROGRESS, mayMigrate: true, migrations })
    const names = Object.keys(MIGRATIONS)
    const upTo12 = Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name < '0013'))
    await migrateTo(released, upTo12)
    const schemaOf = async (url: string) => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      const rows = await queryRows(client, SELECT_SCHEMA)
      await client.end()
      return rows
    }
    const client = new pg.Client({ connectionString: released })
    await client.connect()
    await client.query(`
    create table kysely_migration (name text primary key, timestamp text not null);
    insert into kysely_migration select name, 'x' from schema_migrations;
    drop table schema_migrations`)
    await client.end()
    t.strictSame(await migrateTo(released, MIGRATIONS), names.slice(12))
    await migrateTo(fresh, MIGRATIONS)
    t.strictSame(await schemaOf(released), await schemaOf(fresh))
  },
)

// Regression: the migration failed if the server accepted no second connection, which only reports the progress.
t.test('an index is built over the only connection that the server accepts', async (t) => {
  const url = new URL(await newBarePostgresUrl(t))
  const operator = new pg.Client({ connectionString: url.href })
  await operator.connect()
  t.teardown(() => operator.end())
  const role = `migrating_${randomUUID().replaceAll('-', '')}`
  await operator.query(`create role ${role} login; grant create on schema public to ${role}`)
  url.username = role
  const migrate = (migrations: Migrations) =>
    migrateServer(url.href, 'test', { progress: SILENT_PROGRESS, mayMigrate: true, migrations })
  const table = { '0001-table': { steps: [transaction('create table numbers (n integer)')] } }
  await migrate(table)
  const sessions = `select from pg_stat_activity where usename = '${role}'`
  await until(async () => (await queryRows(operator, sessions)).length === 0, 'the session ends')
  await operator.query(`alter role ${role} connection limit 1`)
  const steps = [index('create index numbers_n on numbers (n)')]
  t.strictSame(await migrate({ ...table, '0002-index': { steps } }), ['0002-index'])
})

// Regression: the error was that of the driver, or "not queryable", and did not say what to do.
t.test('if the connection is lost, the error says that the next run continues', async (t) => {
  const url = await newBarePostgresUrl(t)
  const migrate = (migrations: Migrations) =>
    migrateServer(url, 'test', { progress: SILENT_PROGRESS, mayMigrate: true, migrations })
  const table = { '0001-table': { steps: [transaction('create table numbers (n integer)')] } }
  await migrate(table)
  const lost = [transaction('select pg_terminate_backend(pg_backend_pid())')]
  await rejectsWith(
    t,
    migrate({ ...table, '0002-lost': { steps: lost } }),
    /connection to the database was lost.*Start again: the migration continues where it stopped/,
  )
  const repaired = [transaction('create index numbers_n on numbers (n)')]
  t.strictSame(await migrate({ ...table, '0002-lost': { steps: repaired } }), ['0002-lost'])
})

/** Selects the table locks of this database for which a transaction waits. */
const SELECT_WAITING_LOCKS = `
  select from pg_locks join pg_database on pg_database.oid = pg_locks.database
  where datname = current_database() and locktype = 'relation' and not granted
`

// Regression: these steps locked tables in another order than payments, which caused deadlocks. Under load, an upgrade
// took up to three minutes, because its step was rolled back again and again.
t.test('migration steps lock tables in the same order as payments', async (t) => {
  /** For each step: what a payment has locked when the step begins, and what the payment locks next. */
  const steps = {
    '0021-ledger-totals': { locked: 'debtors', next: 'invoices' },
    '0033-account-references': { locked: 'idempotency_keys, accounts', next: 'payments' },
  }
  const url = await newBarePostgresUrl(t)
  const migrateUpTo = (isIncluded: (name: string) => boolean) => {
    const migrations = Object.fromEntries(
      Object.entries(MIGRATIONS).filter(([name]) => isIncluded(name)),
    )
    return migrateServer(url, 'test', { progress: SILENT_PROGRESS, mayMigrate: true, migrations })
  }
  const payment = new pg.Client({ connectionString: url })
  await payment.connect()
  t.teardown(() => payment.end())
  for (const [migration, { locked, next }] of Object.entries(steps)) {
    await migrateUpTo((name) => name < migration)
    await payment.query(`begin; lock table ${locked} in row exclusive mode`)
    const migrating = migrateUpTo((name) => name <= migration)
    await until(
      async () => (await queryRows(payment, SELECT_WAITING_LOCKS)).length > 0,
      'the migration waits for the payment',
    )
    const error = await payment
      .query(`lock table ${next} in row exclusive mode nowait`)
      .then(() => undefined, String)
    await payment.query('rollback')
    t.strictSame(await migrating, [migration])
    t.equal(error, undefined, `${migration} did not lock ${next} while it waited for ${locked}`)
  }
})
