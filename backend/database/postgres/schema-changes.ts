/** Schema changes that take long on large tables, made in PostgreSQL without blocking writers. */
import { type Kysely, sql } from 'kysely'
import type pg from 'pg'
import type { MigrationProgress } from '../migrating/progress.ts'
import {
  type CheckStep,
  type ColumnStep,
  type IndexStep,
  indexStatement,
} from '../migrating/steps.ts'
import type { MigrationTarget } from '../migrating/target.ts'

export interface BuildOptions {
  readonly progress: MigrationProgress
  /** Opens another connection, over which the progress of an index build is polled. */
  connect(): Promise<pg.Client>
}

/**
 * Builds an index without blocking writers. An aborted build leaves an invalid index, which slows each write and serves
 * no read: this function drops such an index and builds it again.
 */
export async function buildIndex(
  db: Kysely<unknown>,
  step: IndexStep,
  { progress, connect }: BuildOptions,
): Promise<void> {
  const { rows } = await sql<{ valid: boolean }>`
    select indisvalid as valid from pg_index where indexrelid = to_regclass(${step.name})
  `.execute(db)
  const [found] = rows
  if (found?.valid) return
  if (found !== undefined) {
    progress.note(`The index ${step.name} was left unfinished; it is dropped and built again.`)
    await sql.raw(`drop index concurrently ${step.name}`).execute(db)
  }
  const stopReporting = await reportProgress(db, step.name, { progress, connect })
  try {
    await sql.raw(indexStatement(step, 'concurrently')).execute(db)
  } finally {
    await stopReporting()
  }
}

/**
 * Polls the progress of a build over a separate connection, and reports it. `db` has only one connection, so the
 * server process that returns its `pid` here also builds the index later. Resolves to a function that ends the reports.
 */
async function reportProgress(
  db: Kysely<unknown>,
  name: string,
  { progress, connect }: BuildOptions,
): Promise<() => Promise<void>> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
  // A failure to report must not abort the build.
  const watcher = await connect().catch(() => undefined)
  progress.begin(`index ${name}`)
  if (watcher === undefined) return async () => progress.end()
  let reported = { phase: '', done: 0 }
  const report = async () => {
    const { rows: builds } = await watcher.query<BuildProgress>(BUILD_PROGRESS_SQL, [rows[0]?.pid])
    const [build] = builds
    if (build === undefined) return
    if (build.phase !== reported.phase) {
      reported = { phase: build.phase, done: 0 }
      progress.end()
      progress.begin(`index ${name}: ${build.phase}`, build.total || undefined)
    }
    progress.advance(build.done - reported.done)
    reported.done = build.done
  }
  let reporting = Promise.resolve()
  const timer = setInterval(() => {
    reporting = reporting.then(report).catch(() => {})
  }, POLL_INTERVAL_MS)
  return async () => {
    clearInterval(timer)
    await reporting
    progress.end()
    await watcher.end()
  }
}

interface BuildProgress {
  readonly phase: string
  readonly done: number
  readonly total: number
}

const POLL_INTERVAL_MS = 1000

/** Each phase of a build counts either blocks or tuples, so the greater number is its progress. */
const BUILD_PROGRESS_SQL = `
  select phase, greatest(blocks_done, tuples_done) as done, greatest(blocks_total, tuples_total) as total
  from pg_stat_progress_create_index where pid = $1
`

/**
 * Adds the column and its check. The check is added unvalidated and then validated, because PostgreSQL would otherwise
 * block reads and writes while it reads the whole table. An earlier run may have been interrupted before the
 * validation, so each statement can be repeated.
 */
export async function addColumn(
  db: Kysely<unknown>,
  { table, column, type, check }: ColumnStep,
  transaction: MigrationTarget['transaction'],
): Promise<void> {
  const name = `${table}_${column}_check`
  await transaction(async (tx) => {
    await sql.raw(`alter table ${table} add column if not exists ${column} ${type}`).execute(tx)
    await sql.raw(`alter table ${table} drop constraint if exists ${name}`).execute(tx)
    await addCheck(tx, { table, name, condition: check }, 'not valid')
  })
  await sql.raw(`alter table ${table} validate constraint ${name}`).execute(db)
}

/** Replaces a check. As in `addColumn`, the new check is added unvalidated and then validated. */
export async function replaceCheckWithoutBlocking(
  db: Kysely<unknown>,
  step: CheckStep,
  transaction: MigrationTarget['transaction'],
): Promise<void> {
  await transaction((tx) => replaceCheck(tx, step, 'not valid'))
  await sql.raw(`alter table ${step.table} validate constraint ${step.name}`).execute(db)
}

/**
 * Replaces a check; has no effect if an earlier run has replaced it. Without `not valid`, PostgreSQL blocks reads and
 * writes while it reads the whole table to validate the new check.
 */
export async function replaceCheck(
  tx: Kysely<unknown>,
  { table, name, from, to }: CheckStep,
  validity?: 'not valid',
): Promise<void> {
  const { rows } = await sql<{ name: string; definition: string }>`
    select conname as name, pg_get_constraintdef(oid) as definition from pg_constraint
    where conrelid = to_regclass(${table}) and contype = 'c'
  `.execute(tx)
  if (rows.some((row) => row.name === name)) return
  const old = rows.find((row) => comparable(row.definition) === comparable(`check ${from}`))
  if (old === undefined) throw new Error(`${table} has no check (${from})`)
  await sql.raw(`alter table ${table} drop constraint ${old.name}`).execute(tx)
  await addCheck(tx, { table, name, condition: to }, validity)
}

async function addCheck(
  tx: Kysely<unknown>,
  { table, name, condition }: Record<'table' | 'name' | 'condition', string>,
  validity = '',
): Promise<void> {
  await sql
    .raw(`alter table ${table} add constraint ${name} check (${condition}) ${validity}`)
    .execute(tx)
}

/**
 * PostgreSQL adds parentheses and spaces to the condition that a migration wrote, and writes keywords in upper case.
 */
function comparable(definition: string): string {
  return definition.replace(/[()\s]/g, '').toLowerCase()
}
