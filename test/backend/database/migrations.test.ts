// Migrations run while another process serves calls, and may be interrupted at any point.
import { readdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import type { MigrationProgress } from '../../../backend/database/migrating/progress.ts'
import type { Migrations } from '../../../backend/database/migrating/run.ts'
import {
  backfill,
  column,
  index,
  type Step,
  transaction,
} from '../../../backend/database/migrating/steps.ts'
import { MIGRATIONS } from '../../../backend/database/migrations.ts'
import { SqliteConnection } from '../../../backend/database/sqlite/connection.ts'
import { migrateFile } from '../../../backend/database/sqlite/migration.ts'
import type { Transaction } from '../../../backend/database/tables.ts'
import { rejectsWith } from '../../fixtures/matches.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { copySqliteTemplate } from '../../fixtures/service/database-url.ts'

/** The number of rows in each of the two tables that the migrations backfill. */
const ROWS = 1000

/** Migrations of a later version of the program. */
const LATER_MIGRATIONS: Migrations = {
  '9998-notes': {
    steps: [
      transaction('alter table audit_log add column upper_id text'),
      column('audit_log', 'weight', 'integer not null default 1', 'weight > 0'),
      index(
        'create index audit_log_by_upper_id on audit_log (upper_id, id) where upper_id is not null',
      ),
      backfill({ table: 'audit_log', set: 'upper_id = upper(id)', where: 'upper_id is null' }),
    ],
  },
  '9999-keys': {
    steps: [
      backfill({
        table: 'notes_by_day',
        key: ['day', 'id'],
        set: `detail = detail || '.'`,
        where: `detail not like '%.'`,
      }),
    ],
  },
}

/** Opens a database with rows that were not inserted in the order of their ids. */
async function openWithRows(t: Test) {
  const path = join(t.testdir(), 'test.db')
  await copySqliteTemplate(path)
  const database = await openTestDatabase(t, { url: `sqlite:${path}` })
  await database.transaction(async (tx) => {
    await sql`
      with recursive n (n) as (select 1 union all select n + 1 from n where n < ${ROWS})
      insert into audit_log (id, actor_type, actor_label, action, detail, created_at)
      select 'n' || ((n * 7919) % 10000), 'system', 'test', 'test.noted', '{}', '2026-11-22' from n
    `.execute(tx)
    await sql`
      create table notes_by_day (day integer, id text, detail text, primary key (day, id))
    `.execute(tx)
    await sql`
      insert into notes_by_day select length(id), id, detail from audit_log
    `.execute(tx)
  })
  return { path, database }
}

const SILENT_PROGRESS: MigrationProgress = { note() {}, begin() {}, advance() {}, end() {} }

const migrateTo = (path: string, migrations: Migrations, progress = SILENT_PROGRESS) =>
  migrateFile(path, { progress, mayMigrate: true, migrations })

const ALL_MIGRATIONS: Migrations = { ...MIGRATIONS, ...LATER_MIGRATIONS }

async function countBackfilledRows(tx: Transaction) {
  const { rows } = await sql`
    select (select count(*) from audit_log where upper_id = upper(id) and weight = 1) as filled,
      (select count(*) from notes_by_day where detail = '{}.') as suffixed
  `.execute(tx)
  return rows
}

t.test('each step of a migration runs, and a backfill reaches every row', async (t) => {
  const { path, database } = await openWithRows(t)
  t.strictSame(await migrateTo(path, ALL_MIGRATIONS), ['9998-notes', '9999-keys'])
  t.strictSame(await database.transaction(countBackfilledRows), [{ filled: ROWS, suffixed: ROWS }])
  t.strictSame(await migrateTo(path, ALL_MIGRATIONS), [], 'a second run applies nothing')
  const plan = await database.transaction((tx) =>
    sql<{ detail: string }>`explain query plan
      select id from audit_log where upper_id = 'N1' order by id`.execute(tx),
  )
  t.ok(plan.rows[0]?.detail.includes('audit_log_by_upper_id'))
})

/** The migrations that were written before migrations had steps. */
const BEFORE_STEPS: Migrations = Object.fromEntries(
  Object.entries(MIGRATIONS).filter(([name]) => name < '0013'),
)

async function openSqliteConnection(t: Test, path: string): Promise<SqliteConnection> {
  const connection = await SqliteConnection.open(path, 'write')
  t.teardown(() => connection.close())
  return connection
}

class Interrupted extends Error {}

t.test(
  'a migration that is interrupted after every batch continues where it stopped',
  async (t) => {
    const { path, database } = await openWithRows(t)
    const begun: string[] = []
    // Each attempt is interrupted after one more batch.
    const attempt = () =>
      migrateTo(path, ALL_MIGRATIONS, {
        ...SILENT_PROGRESS,
        begin: (label) => void begun.push(label),
        advance() {
          throw new Interrupted()
        },
      })
    let interruptions = 0
    for (;;) {
      const outcome = await attempt().catch((error: unknown) => error)
      if (!(outcome instanceof Interrupted)) break
      interruptions += 1
    }
    t.equal(interruptions, 12, 'in each of two tables, five batches of 200 rows and an empty batch')
    t.strictSame(
      [...new Set(begun)],
      ['9998-notes: backfill of audit_log', '9999-keys: backfill of notes_by_day'],
    )
    t.strictSame(await database.transaction(countBackfilledRows), [
      { filled: ROWS, suffixed: ROWS },
    ])
  },
)

t.test('two concurrent runs of the same migrations both succeed', async (t) => {
  const { path, database } = await openWithRows(t)
  await Promise.all([migrateTo(path, ALL_MIGRATIONS), migrateTo(path, ALL_MIGRATIONS)])
  t.strictSame(await database.transaction(countBackfilledRows), [{ filled: ROWS, suffixed: ROWS }])
})

t.test('a failed step is rolled back completely, and the next run repeats it', async (t) => {
  const { path } = await openWithRows(t)
  const failing = (last: string): Migrations => ({
    ...MIGRATIONS,
    '9999-fails': {
      steps: [
        transaction('create table first (id text)'),
        transaction('create table second (id text)', last),
      ],
    },
  })
  await rejectsWith(t, migrateTo(path, failing('nonsense')), /nonsense/)
  t.strictSame(await migrateTo(path, failing('create table third (id text)')), ['9999-fails'])
})

t.test(
  'a database that was created before migrations had steps gets the current schema',
  async (t) => {
    const directory = t.testdir()
    const schemaOf = async (path: string) => {
      const database = await openTestDatabase(t, { url: `sqlite:${path}`, openedBy: 'operator' })
      const { rows } = await database.transaction((tx) =>
        sql<{ sql: string }>`select sql from sqlite_master where name not like 'kysely%'
        and sql is not null order by name`.execute(tx),
      )
      return rows
    }
    const path = join(directory, 'released.db')
    writeFileSync(path, '')
    await migrateTo(path, BEFORE_STEPS)
    const database = await openSqliteConnection(t, path)
    for (const statement of [
      'create table kysely_migration (name text primary key, timestamp text not null)',
      `insert into kysely_migration select name, 'x' from schema_migrations`,
      'drop table schema_migrations',
    ]) {
      await database.exec(statement)
    }
    const added = Object.keys(MIGRATIONS).slice(Object.keys(BEFORE_STEPS).length)
    t.strictSame(await migrateTo(path, MIGRATIONS), added)
    const fresh = join(directory, 'fresh.db')
    await copySqliteTemplate(fresh)
    t.strictSame(await schemaOf(path), await schemaOf(fresh))
    t.strictSame(
      await migrateTo(path, BEFORE_STEPS),
      [],
      'the older program works with the current schema',
    )
  },
)

t.test('the list of migrations has every file in the folder of migrations', (t) => {
  const directory = join(import.meta.dirname, '../../../backend/database/migrations')
  const files = readdirSync(directory).map((file) => basename(file, '.ts'))
  t.strictSame(Object.keys(MIGRATIONS), files.toSorted())
  t.end()
})

t.test('no step blocks writers, and removals declare `requires`', (t) => {
  for (const [name, { steps, requires }] of Object.entries(MIGRATIONS)) {
    if (name in BEFORE_STEPS) continue
    for (const fault of faultsOf(steps, requires)) t.fail(`${name}: ${fault}`)
  }
  const bad = transaction(
    'create table fresh (id text)',
    'create index fresh_by_id on fresh (id)',
    'create index payments_by_x on payments (id)',
    'update payments set id = id',
    'alter table payments add column x text check (x is null)',
    'alter table payments drop column x',
  )
  t.equal(faultsOf([bad], undefined).length, 4)
  t.equal(faultsOf([bad], '0016-payment-fingerprints').length, 3)
  t.end()
})

function faultsOf(steps: readonly Step[], requires: string | undefined): string[] {
  const statements = steps.flatMap((step) => (step.kind === 'transaction' ? step.statements : []))
  const created = new Set(statements.map((text) => /^\s*create table (\w+)/.exec(text)?.[1]))
  return statements.flatMap((text) => {
    const indexed = /^\s*create (?:unique )?index \w+ on (\w+)/.exec(text)?.[1]
    if (indexed !== undefined && !created.has(indexed)) return [`use index(): ${text}`]
    if (/^\s*(?:update|delete)\b/.test(text)) return [`use backfill(): ${text}`]
    if (/^\s*alter table \w+ add column.*\bcheck\b/s.test(text)) return [`use column(): ${text}`]
    // The previous version does not need a dropped index, because another index serves its statements.
    const removes = /^\s*(?:drop (?!index)|alter table \w+ (?:drop|rename|alter)\b)/.test(text)
    if (removes && requires === undefined) return [`declare \`requires\`: ${text}`]
    return []
  })
}
