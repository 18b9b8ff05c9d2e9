/** The shape of what is kept for a time: how to find some that are due, and how to forget those. */
import { sql } from 'kysely'
import { readAnyTable, writeAnyTable } from './any-table.ts'
import type { Reader, Tables, Transaction } from './tables.ts'

export interface Forgetting {
  /** For the log. */
  readonly what: string
  /** Some of what is due, at most a batch; empty where nothing is. */
  find(read: Reader, now: Date): Promise<readonly Key[]>
  /** In one transaction: a payment never waits for longer than that. What is gone already is no fault. */
  forget(tx: Transaction, keys: readonly Key[]): Promise<void>
}

/** Of a row, by its columns. */
export type Key = Readonly<Record<string, unknown>>

/** Some milliseconds' work for the writer, also where rows hold whole answers. */
export const BATCH_MAX = 100

export const DAY_MS = 86_400_000

interface Aged<Column extends string> {
  readonly key: readonly Column[]
  /** A column with an instant, and with an index where the table grows. */
  readonly age: Column
  readonly keptMs: number
}

/** Rows of one table that nothing refers to, by their age. */
export function oldRows<T extends keyof Tables>(
  table: T,
  { key, age, keptMs }: Aged<keyof Tables[T] & string>,
): Forgetting {
  return {
    what: table.replaceAll('_', ' '),
    async find(read, now) {
      const before = new Date(now.getTime() - keptMs).toISOString()
      const rows = readAnyTable(read)
        .selectFrom<string>(table)
        .where(sql<boolean>`${sql.ref(age)} < ${before}`)
      return await rows
        .select([...key])
        .limit(BATCH_MAX)
        .execute()
    },
    async forget(tx, keys) {
      await writeAnyTable(tx)
        .deleteFrom<string>(table)
        .where((row) => row.or(keys.map((values) => row.and(values))))
        .execute()
    },
  }
}
