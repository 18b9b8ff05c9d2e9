/**
 * The port to the database. `database/` knows no subject: tables' shapes and how transactions run,
 * nothing of what they mean.
 */
import type { Logger } from '../../shared/process/log.ts'
import type { Reader, Transaction } from './tables.ts'

export type { Reader, Transaction } from './tables.ts'

export interface Database {
  /** Committed state, from reader connections. */
  readonly read: Reader
  /** Whether transactions run side by side. Where not, nobody changes meanwhile what one has read. */
  readonly isConcurrent: boolean
  /**
   * Runs `work` in a transaction that is durable when the promise resolves. What `work` throws
   * rolls its own writes back and is thrown here. Throws `Problem` 503 `service_unavailable` where
   * the writer was not free within 5 s, and on an error that ended the whole transaction: nothing
   * was recorded, the caller may repeat; 504 `gateway_timeout` where it is not known whether it was.
   * Calling it inside `work` throws an assertion error.
   *
   * Where writers run side by side, `work` sees what others commit meanwhile: it locks the rows that
   * it decides by (`forNoKeyUpdate`), and may be run again, so it has no effect outside of `tx`.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  /** Waits for running transactions, then closes every connection. */
  close(): Promise<void>
}

export interface DatabaseOptions {
  readonly url: string
  readonly log: Logger
  /**
   * A backend migrates; on a SQLite file it is the only one of its kind. An operator's command
   * works beside it; it migrates an empty database and refuses one that needs migration. A migrator
   * works beside it, migrates, and may take its time.
   */
  readonly user: 'backend' | 'operator' | 'migrator'
  readonly waitMsMax?: number
  /** To PostgreSQL, at most. */
  readonly connectionsMax?: number
  /** Told how long each transaction waited for the writer, or for a connection. */
  readonly waits?: { observe(seconds: number): void }
}

export interface OpenDatabase extends Database {
  /** The migrations that opening applied. */
  readonly migrated: readonly string[]
  /**
   * Runs `work` with a reader that shows one instant, however long it takes and whatever is committed
   * meanwhile. Holds nobody up.
   */
  snapshot<T>(work: (read: Reader) => Promise<T>): Promise<T>
  /**
   * Ends what a database keeps beside its records to recover from a crash, so that what was
   * overwritten is nowhere in its files. False where someone still reads what was there before; also
   * where the database's own operators decide when that is (PostgreSQL).
   */
  emptyLog(): Promise<boolean>
  /** Why the last transactions were lost, e.g. a full disk; undefined once one was committed. */
  readonly fault: Error | undefined
  activity(): DatabaseActivity
}

/** For operators; transactions since the database was opened, by how they ended. */
export interface DatabaseActivity {
  readonly committed: number
  /** What they did was refused, or failed by itself. */
  readonly rolledBack: number
  /** The database failed them. */
  readonly lost: number
  /** Those that wait for the writer, or for a connection. */
  readonly waiting: number
  /** Connections to a server; none to a file. */
  readonly pools: readonly { readonly name: string; readonly busy: number; readonly idle: number }[]
}
