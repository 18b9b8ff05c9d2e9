/** The interface of the database. `database/` knows no domain rules. */
import type { Logger } from '../../shared/process/log.ts'
import type { MigrationProgress } from './migrating/progress.ts'
import type { Reader, Transaction } from './tables.ts'

export type { Reader, Transaction } from './tables.ts'

export interface Database {
  /** Reads committed state. */
  readonly read: Reader
  /**
   * Whether all transactions run concurrently. If not, only transactions of different debtors run concurrently (see
   * `TransactionScope`), and the rows that a transaction has read cannot change before it ends.
   */
  readonly isConcurrent: boolean
  /**
   * Runs `work` in a transaction that is durable when the promise resolves. If `work` throws, rolls its writes back and
   * throws the same error. Throws `Problem` 503 `service_unavailable` if the writer or a connection was not free within
   * `waitMsMax`, or if an error ended the whole transaction: nothing was recorded, and the caller may retry. Throws 504
   * `gateway_timeout` if it is unknown whether anything was recorded. A nested call throws an assertion error.
   *
   * If `isConcurrent` is true, `work` sees what other transactions commit meanwhile. It must lock the rows on which its
   * decisions depend (`forNoKeyUpdate`), and must have no effect outside of `tx`, because it may run again.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>, scope?: TransactionScope): Promise<T>
  /**
   * Calls `listener` after the commit of a transaction that announced `topic` (announcements.ts). Returns a function
   * that removes the listener.
   */
  listen(topic: string, listener: () => void): () => void
  /**
   * Set if the clock of this backend and the clock of PostgreSQL differ too much for background work, whose leases and
   * due times all backends share. Undefined on SQLite, which has one backend.
   */
  readonly clockFault: Error | undefined
  /** Waits for running transactions, then closes every connection. */
  close(): Promise<void>
}

export interface TransactionScope {
  /**
   * The account for which the transaction runs. Waiting transactions of different accounts take turns; all transactions
   * without an account count as one more account. The transactions of one account begin in the order of the calls, but
   * on PostgreSQL, those with a `debtorId` may wait in a queue of their own.
   */
  readonly accountId?: string | undefined
  /**
   * The only debtor whose records the transaction changes. The decisions of `work` may depend only on these records, on
   * the account's settings, and on unique constraints. Transactions of different debtors may run at the same time and
   * share a COMMIT. If one of them fails, the others may be undone and run again, so `work` must have no effect outside
   * of `tx`.
   */
  readonly debtorId?: string | undefined
}

/** Returns a view of the database whose transactions run for the account. */
export function databaseOf(database: Database, accountId: string): Database {
  return {
    read: database.read,
    isConcurrent: database.isConcurrent,
    transaction: (work, scope) => database.transaction(work, { ...scope, accountId }),
    listen: (topic, listener) => database.listen(topic, listener),
    get clockFault() {
      return database.clockFault
    },
    close: () => database.close(),
  }
}

export interface DatabaseOptions {
  readonly url: string
  readonly log: Logger
  /**
   * A backend migrates the database; a SQLite file accepts only one backend. An operator's command and a migrator can
   * run beside a backend. The command rejects a database with pending migrations, and never creates a database, because
   * DATABASE_URL may be wrong. A migrator migrates, and its statements have no time limit.
   */
  readonly openedBy: 'backend' | 'operator' | 'migrator'
  /** How long a transaction may wait for the writer or for a connection; 5000 by default. */
  readonly waitMsMax?: number
  /** The URL of PostgreSQL itself, if `url` leads to a pooler that may run each transaction in another session. */
  readonly directUrl?: string | undefined
  /** The maximum number of connections to PostgreSQL, in addition to those for notifications and polling. */
  readonly connectionsMax?: number
  /** Where migrations report their progress; by default in the log. */
  readonly progress?: MigrationProgress
  /** The clock that is compared with the clock of PostgreSQL; by default, the clock of this machine. */
  readonly clock?: () => Date
  /** Records each wait of a transaction for the writer, or for a connection. A retried transaction waits again. */
  readonly transactionWaits?: { observe(seconds: number): void } | undefined
}

export interface OpenDatabase extends Database {
  /** The names of the migrations that opening the database has applied. */
  readonly migrated: readonly string[]
  /** Runs `work` with a reader that shows the state at one instant. Blocks no other transaction. */
  snapshot<T>(work: (read: Reader) => Promise<T>): Promise<T>
  /**
   * Empties SQLite's write-ahead log, so that the database's files no longer contain overwritten data. Returns false if
   * a reader still uses the log, and on PostgreSQL, where operators decide when the log is deleted.
   */
  truncateWriteAheadLog(): Promise<boolean>
  /** Why the last transactions were lost (e.g. a full disk), until the next commit; or why commits wait at present. */
  readonly fault: Error | undefined
  activity(): DatabaseActivity
}

/** Transactions since the database was opened, by outcome, for metrics. */
export interface DatabaseActivity {
  readonly committed: number
  /** Transactions that were rolled back because their work threw an error. */
  readonly rolledBack: number
  /** Transactions that failed with 503 or 504, because of an error of the database or a wait that was too long. */
  readonly lost: number
  /** Transactions that wait for the writer, or for a connection. */
  readonly waiting: number
  /** The pools of connections to PostgreSQL; empty for SQLite. */
  readonly pools: readonly { readonly name: string; readonly busy: number; readonly idle: number }[]
}
