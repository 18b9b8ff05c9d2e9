/** How to find rows whose retention period has ended, and what is done with them: most rules delete them. */
import { sql } from 'kysely'
import { readAnyTable, writeAnyTable } from './any-table.ts'
import type { Reader, Tables, Transaction } from './tables.ts'

export interface RetentionRule {
  /** The name of the rule in log messages, e.g. `webhook events`. */
  readonly name: string
  /**
   * Returns at most one batch of expired rows. A rule with an age column returns the oldest rows first. Its search
   * begins at the time that `last`, the last row of the previous batch, has in this column. Otherwise, each search
   * would first read the same rows as the searches before: old rows that are kept and, on PostgreSQL, rows that were
   * deleted since the last vacuum.
   */
  findExpired(read: Reader, now: Date, last?: RowKey): Promise<readonly RowKey[]>
  /** Deletes or changes the rows of one batch, unless this has happened already. */
  applyTo(tx: Transaction, keys: readonly RowKey[]): Promise<void>
}

/** The values by which a row is found again: its primary key, and the time in its age column if the rule has one. */
export type RowKey = Readonly<Record<string, unknown>>

/**
 * The maximum number of rows in a batch. A batch occupies SQLite's writer for a few milliseconds, even if its rows
 * contain whole response bodies.
 */
export const BATCH_MAX = 100

export const DAY_MS = 86_400_000

interface AgeRule<Column extends string> {
  readonly key: readonly Column[]
  /**
   * Contains the time from which the row is kept for `keptMs`, e.g. the time of its creation or expiry. The column
   * needs an index if the table can become large.
   */
  readonly ageColumn: Column
  readonly keptMs: number
}

/** Returns the time in the row's age column; without a row, a text that sorts before all times. */
export function startOfNextBatch(row: RowKey | undefined, column: string): string {
  return row === undefined ? '' : String(row[column])
}

/**
 * The rule that a row is deleted `keptMs` after the time in its age column. If another table refers to the row, the
 * rule of that table must delete the referring rows earlier.
 */
export function ruleByAge<T extends keyof Tables>(
  table: T,
  { key, ageColumn, keptMs }: AgeRule<keyof Tables[T] & string>,
): RetentionRule {
  return {
    name: table.replaceAll('_', ' '),
    async findExpired(read, now, last) {
      const before = new Date(now.getTime() - keptMs).toISOString()
      return await readAnyTable(read)
        .selectFrom<string>(table)
        .select([...new Set([...key, ageColumn])])
        .where(sql<boolean>`${sql.ref(ageColumn)} < ${before}`)
        .where(sql<boolean>`${sql.ref(ageColumn)} >= ${startOfNextBatch(last, ageColumn)}`)
        .orderBy(ageColumn)
        .limit(BATCH_MAX)
        .execute()
    },
    // `keys` contain the age column, so a row in which this time has changed since the selection is kept.
    async applyTo(tx, keys) {
      await writeAnyTable(tx)
        .deleteFrom<string>(table)
        .where((row) => row.or(keys.map((values) => row.and(values))))
        .execute()
    },
  }
}
