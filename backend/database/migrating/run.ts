/**
 * Applies migrations step by step, while other processes serve calls. Each step and batch is recorded at its end, so
 * that another process can continue after a kill.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import type { MigrationProgress } from './progress.ts'
import {
  beginRecord,
  completeRecord,
  createRecordTable,
  findRecord,
  type MigrationRecord,
  recordStep,
} from './record.ts'
import {
  type BackfillStep,
  backfillStatement,
  columnStatement,
  indexStatement,
  type Migration,
  type Step,
} from './steps.ts'
import type { MigrationTarget } from './target.ts'

export type Migrations = Readonly<Record<string, Migration>>

/** The approximate duration of a batch. A payment that needs one of its rows waits; on SQLite, every write waits. */
const BATCH_MS = 50
/** In smaller batches, the commit takes most of the time. */
const BATCH_ROWS_MIN = 200
const BATCH_ROWS_MAX = 10_000

/**
 * Applies all migrations in one transaction, for a database that is not in use yet. Returns their names: none if
 * another process has applied them already.
 */
export function migrateEmpty(
  target: MigrationTarget,
  migrations: Migrations,
): Promise<readonly string[]> {
  return target.transaction(async (tx) => {
    if (await target.hasTable('schema_migrations')) return []
    const now = new Date().toISOString()
    await createRecordTable(target, tx, now)
    for (const [name, { steps, requires }] of Object.entries(migrations)) {
      await beginRecord(tx, { name, requires }, now)
      for (const step of steps) await runInTransaction(target, tx, step)
      await recordStep(tx, name, { stepsDone: steps.length })
      await completeRecord(tx, name, now)
    }
    return Object.keys(migrations)
  })
}

/** Applies the pending migrations, and returns their names. */
export async function applyPending(
  target: MigrationTarget,
  migrations: Migrations,
  progress: MigrationProgress,
): Promise<readonly string[]> {
  if (!(await target.hasTable('schema_migrations'))) {
    await target.transaction((tx) => createRecordTable(target, tx, new Date().toISOString()))
  }
  const applied: string[] = []
  for (const [name, migration] of Object.entries(migrations)) {
    if ((await findRecord(target.db, name))?.isComplete) continue
    await apply(target, name, migration, progress)
    applied.push(name)
  }
  return applied
}

async function apply(
  target: MigrationTarget,
  name: string,
  { steps, requires }: Migration,
  progress: MigrationProgress,
): Promise<void> {
  const now = new Date().toISOString()
  await target.transaction((tx) => beginRecord(tx, { name, requires }, now))
  const record = await findRecord(target.db, name)
  for (const [index, step] of steps.entries()) {
    if (index < (record?.stepsDone ?? 0)) continue
    const at = { name, index }
    if (step.kind === 'backfill') await runBackfill(target, at, step, progress)
    else await runStep(target, at, step)
  }
  await target.transaction((tx) => completeRecord(tx, name, new Date().toISOString()))
}

/** Identifies a step: the name of its migration, and its index in `steps`. */
interface StepReference {
  readonly name: string
  readonly index: number
}

async function runStep(
  target: MigrationTarget,
  at: StepReference,
  step: Exclude<Step, BackfillStep>,
): Promise<void> {
  // Absent on SQLite, which runs every step in a transaction.
  const { runWithoutBlocking } = target
  if (step.kind === 'transaction' || runWithoutBlocking === undefined) {
    await runAndRecord(target, at, async (tx) => {
      await runInTransaction(target, tx, step)
      return undefined
    })
    return
  }
  // The step runs again if the process is killed before the step is recorded.
  await runWithoutBlocking(step)
  await runAndRecord(target, at, async () => undefined)
}

/**
 * Pauses after each batch for as long as its statements took, so that calls get about half of the database's capacity.
 * The size of the batches is adjusted so that most take between half of `BATCH_MS` and `BATCH_MS`.
 */
async function runBackfill(
  target: MigrationTarget,
  at: StepReference,
  step: BackfillStep,
  progress: MigrationProgress,
): Promise<void> {
  const record = await findRecord(target.db, at.name)
  const { rows } = await sql<{ total: number }>`
    select count(*) as total from ${sql.table(step.table)}
    where ${after(step.key, record?.position ?? null)}
  `.execute(target.db)
  progress.begin(`${at.name}: backfill of ${step.table}`, rows[0]?.total)
  try {
    let limit = BATCH_ROWS_MIN
    for (;;) {
      const measured = { rows: 0, ms: 0 }
      const isStepDone = await runAndRecord(target, at, async (tx, position) => {
        const from = performance.now()
        const batch = await backfillBatch(tx, step, position, limit)
        measured.rows = batch.rows
        measured.ms = performance.now() - from
        return batch.last
      })
      progress.advance(measured.rows)
      if (isStepDone) return
      await delay(measured.ms)
      if (measured.ms < BATCH_MS / 2) limit = Math.min(BATCH_ROWS_MAX, limit * 2)
      else if (measured.ms > BATCH_MS) limit = Math.max(BATCH_ROWS_MIN, Math.floor(limit / 2))
    }
  } finally {
    progress.end()
  }
}

/**
 * Reads the keys of up to `limit` rows after `position`, and updates those rows that meet the condition of the step. In
 * the result, `rows` is the number of keys that were read. `last` is the last of these keys; undefined if fewer than
 * `limit` rows were left, which means that the step is done.
 */
async function backfillBatch(
  tx: Kysely<unknown>,
  step: BackfillStep,
  position: string | null,
  limit: number,
): Promise<{ readonly last: string | undefined; readonly rows: number }> {
  const { key, table } = step
  const isAfter = after(key, position)
  const order = sql.join(key.map((name) => sql.ref(name)))
  const { rows: keys } = await sql<Readonly<Record<string, unknown>>>`
    select ${order} from ${sql.table(table)} where ${isAfter} order by ${order} limit ${limit}
  `.execute(tx)
  const end = keys.at(-1)
  if (end === undefined) return { last: undefined, rows: 0 }
  const last = JSON.stringify(key.map((name) => end[name]))
  await sql`
    ${sql.raw(backfillStatement(step))} and ${isAfter} and ${keyOf(key)} <= ${valuesOf(last)}
  `.execute(tx)
  return { last: keys.length < limit ? undefined : last, rows: keys.length }
}

function after(key: readonly string[], position: string | null) {
  return position === null ? sql`true` : sql`${keyOf(key)} > ${valuesOf(position)}`
}

function keyOf(key: readonly string[]) {
  const columns = sql.join(key.map((name) => sql.ref(name)))
  return key.length === 1 ? columns : sql`(${columns})`
}

function valuesOf(position: string) {
  const values: readonly unknown[] = JSON.parse(position)
  return values.length === 1 ? sql.join(values) : sql`(${sql.join(values)})`
}

/**
 * Runs `work` and records its progress in one transaction, unless another process has completed the step. `work`
 * resolves to the position at which its next call must continue, or to undefined if the step is done. Resolves to
 * whether the step is done.
 */
function runAndRecord(
  target: MigrationTarget,
  { name, index }: StepReference,
  work: (tx: Kysely<unknown>, position: string | null) => Promise<string | undefined>,
): Promise<boolean> {
  return target.transaction(async (tx) => {
    const record = await findRecord(tx, name)
    if (hasDone(record, index)) return true
    const position = await work(tx, record?.position ?? null)
    const isStepDone = position === undefined
    await recordStep(tx, name, {
      stepsDone: isStepDone ? index + 1 : index,
      position: position ?? null,
    })
    return isStepDone
  })
}

function hasDone(record: MigrationRecord | undefined, index: number): boolean {
  return record !== undefined && (record.isComplete || record.stepsDone > index)
}

async function runInTransaction(
  target: MigrationTarget,
  tx: Kysely<unknown>,
  step: Step,
): Promise<void> {
  switch (step.kind) {
    case 'transaction':
      return step.run(tx)
    case 'column':
      return void (await sql.raw(columnStatement(step)).execute(tx))
    case 'check':
      return target.replaceCheck(tx, step)
    case 'index':
      return void (await sql.raw(indexStatement(step)).execute(tx))
    case 'backfill':
      return void (await sql.raw(backfillStatement(step)).execute(tx))
  }
}
