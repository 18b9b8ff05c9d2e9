/** The database operations that the migration runner needs; each engine implements them. */
import type { Kysely } from 'kysely'
import type { CheckStep, ColumnStep, IndexStep } from './steps.ts'

export interface MigrationTarget {
  readonly db: Kysely<unknown>
  /** A call inside of `transaction` also finds tables that the transaction has created. */
  hasTable(name: string): Promise<boolean>
  /**
   * Runs `work` in a transaction. On PostgreSQL, if a statement waits for a lock for more than a moment, the
   * transaction is rolled back and `work` runs again later. Otherwise, other transactions would queue behind the
   * statement. On SQLite, `work` runs once, and blocks writers until it ends.
   */
  transaction<T>(work: (tx: Kysely<unknown>) => Promise<T>): Promise<T>
  /**
   * Runs a step outside of a transaction, without blocking writers. If the process is killed, the step can be
   * run again. Absent if the database can run such steps only in a transaction.
   */
  runWithoutBlocking?(step: ColumnStep | CheckStep | IndexStep): Promise<void>
  /** Replaces a check constraint in a transaction. Used in an empty database, and if `runWithoutBlocking` is absent. */
  replaceCheck(tx: Kysely<unknown>, step: CheckStep): Promise<void>
  /**
   * On PostgreSQL, runs `work` while no other process migrates. On SQLite, runs `work` immediately: transactions alone
   * prevent two processes from running the same step.
   */
  exclusively<T>(work: () => Promise<T>): Promise<T>
}
