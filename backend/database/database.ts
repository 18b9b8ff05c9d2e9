/**
 * The port to the database. `database/` knows no subject: tables' shapes and how transactions run,
 * nothing of what they mean.
 */
import type { Logger } from '../../shared/log.ts'
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

export interface DatabaseOptions {
  readonly url: string
  readonly log: Logger
  /**
   * The backend is the only one of its kind on a SQLite file, and migrates it. An operator's command
   * works beside it; it migrates an empty database and refuses one that needs migration. A migrator
   * works beside it and migrates.
   */
  readonly user: 'backend' | 'operator' | 'migrator'
  readonly waitMsMax?: number
}

export interface OpenDatabase extends Database {
  /** The migrations that opening applied. */
  readonly migrated: readonly string[]
  /** Why the last transactions were lost, e.g. a full disk; undefined once one was committed. */
  readonly fault: Error | undefined
}
