/**
 * The port to the database. `database/` knows no subject: tables' shapes and how transactions run,
 * nothing of what they mean.
 */
import type { Reader, Transaction } from './tables.ts'

export type { Reader, Transaction } from './tables.ts'

export interface Database {
  /** Committed state, from reader connections. */
  readonly read: Reader
  /**
   * Runs `work` in a transaction that is durable when the promise resolves. What `work` throws
   * rolls its own writes back and is thrown here. Throws `Problem` 503 `service_unavailable` where
   * the writer was not free within 5 s, and on an error that ended the whole transaction: nothing
   * was recorded, the caller may repeat. Calling it inside `work` throws an assertion error.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  /** Waits for running transactions, then closes every connection. */
  close(): Promise<void>
}
