/**
 * Records the applied steps of migrations in the table `schema_migrations`. A step is recorded in the transaction that
 * runs it or, if it runs outside of a transaction, right after it.
 */
import { type Kysely, sql } from 'kysely'
import type { MigrationTarget } from './target.ts'

export interface MigrationRecord {
  readonly name: string
  readonly stepsDone: number
  /**
   * The key of the last row that the current backfill has processed, as JSON; null before its first batch, and if no
   * backfill runs.
   */
  readonly position: string | null
  /** See `Migration.requires`. */
  readonly requires: string | null
  readonly isComplete: boolean
}

interface Row {
  readonly name: string
  readonly steps_done: number
  readonly position: string | null
  readonly requires: string | null
  readonly completed_at: string | null
}

/** The table in which older versions of this program recorded migrations. */
const PREDECESSOR = 'kysely_migration'

/** Returns undefined if the database was never migrated. */
export async function readRecords({
  db,
  hasTable,
}: MigrationTarget): Promise<MigrationRecord[] | undefined> {
  if (await hasTable('schema_migrations')) {
    const { rows } = await sql<Row>`select * from schema_migrations`.execute(db)
    return rows.map(toRecord)
  }
  if (!(await hasTable(PREDECESSOR))) return undefined
  const { rows } = await sql<{ name: string }>`
    select name from ${sql.table(PREDECESSOR)}
  `.execute(db)
  // The predecessor recorded only names of completed migrations.
  return rows.map(({ name }) => ({
    name,
    stepsDone: 0,
    position: null,
    requires: null,
    isComplete: true,
  }))
}

/**
 * Creates the table `schema_migrations` and copies the records of its predecessor into it. The predecessor remains, so
 * that older versions of this program, which read it, can still start.
 */
export async function createRecordTable(
  { hasTable }: MigrationTarget,
  tx: Kysely<unknown>,
  now: string,
): Promise<void> {
  await sql`
    create table if not exists schema_migrations (
      name text not null primary key,
      steps_done integer not null,
      position text,
      requires text,
      started_at text not null,
      completed_at text
    )
  `.execute(tx)
  if (!(await hasTable(PREDECESSOR))) return
  // Without `where true`, SQLite would parse `on conflict` as the condition of a join.
  await sql`
    insert into schema_migrations (name, steps_done, started_at, completed_at)
    select name, 0, ${now}, ${now} from ${sql.table(PREDECESSOR)} where true
    on conflict do nothing
  `.execute(tx)
}

/** Returns undefined if the migration was not started. */
export async function findRecord(
  tx: Kysely<unknown>,
  name: string,
): Promise<MigrationRecord | undefined> {
  const { rows } = await sql<Row>`
    select * from schema_migrations where name = ${name}
  `.execute(tx)
  return rows.map(toRecord)[0]
}

export async function beginRecord(
  tx: Kysely<unknown>,
  { name, requires }: { readonly name: string; readonly requires: string | undefined },
  now: string,
): Promise<void> {
  await sql`
    insert into schema_migrations (name, steps_done, requires, started_at)
    values (${name}, 0, ${requires ?? null}, ${now})
    on conflict do nothing
  `.execute(tx)
}

export async function recordStep(
  tx: Kysely<unknown>,
  name: string,
  { stepsDone, position = null }: { readonly stepsDone: number; readonly position?: string | null },
): Promise<void> {
  await sql`
    update schema_migrations set steps_done = ${stepsDone}, position = ${position}
    where name = ${name}
  `.execute(tx)
}

export async function completeRecord(
  tx: Kysely<unknown>,
  name: string,
  now: string,
): Promise<void> {
  await sql`
    update schema_migrations set completed_at = ${now} where name = ${name}
  `.execute(tx)
}

function toRecord(row: Row): MigrationRecord {
  return {
    name: row.name,
    stepsDone: row.steps_done,
    position: row.position,
    requires: row.requires,
    isComplete: row.completed_at !== null,
  }
}
