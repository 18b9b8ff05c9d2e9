/**
 * PostgreSQL: any number of backends on one database. Each transaction, or each group of transactions of different
 * debtors (transaction-groups.ts), runs with READ COMMITTED on a connection of its own. A transaction that the database
 * aborted, e.g. because of a deadlock, is retried a few times.
 */
import assert from 'node:assert'
import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import type { DatabaseConnection } from 'kysely'
import { Problem } from '../../../shared/contract/problem.ts'
import { type CollapsingLog, createCollapsingLog } from '../../../shared/process/collapsing-log.ts'
import type { Logger } from '../../../shared/process/log.ts'
import { collectAnnouncements } from '../announcements.ts'
import type {
  DatabaseActivity,
  DatabaseOptions,
  OpenDatabase,
  Reader,
  Transaction,
  TransactionScope,
} from '../database.ts'
import { createLoggedProgress } from '../migrating/progress.ts'
import type { Tables } from '../tables.ts'
import { LockTimeout, outcomeUnknown, unavailable } from '../unavailable.ts'
import { PostgresAnnouncements } from './announcements.ts'
import { query, TransactionConnection } from './connection.ts'
import { errorKindOf, isCommitRefused, isReadOnlyServer } from './errors.ts'
import { kyselyOnConnection } from './kysely.ts'
import { migrateServer } from './migration.ts'
import { Primary } from './primary.ts'
import { PostgresReaders } from './readers.ts'
import { parseServers } from './servers.ts'
import {
  checkRoleLimits,
  connectToPrimary,
  openSeparateSession,
  type SessionOptions,
} from './sessions.ts'
import { StatementNames } from './statement-names.ts'
import { type GroupWork, TransactionGroups, type Work } from './transaction-groups.ts'
import { PostgresWriters, type Writer } from './writers.ts'

const CONNECTIONS_MAX = 15

/** The share of the connections that is only for reading, so that transactions waiting for a row do not block reads. */
const READERS_SHARE = 1 / 3

/** `PostgresReaders` needs one connection for prepared statements, and one for all other statements. */
const READERS_MIN = 2

const ATTEMPTS_MAX = 5

interface TransactionState {
  active: boolean
}

/** The outcome of one attempt at a transaction: a value, or the error that causes a retry. */
type AttemptOutcome<T> = { readonly value: T } | { readonly retryable: Error }

/**
 * The longest wait for a lock, as a share of the longest wait for a connection (`waitMsMax`): a transaction may wait
 * for both, and must end within the gateway's timeout.
 */
const LOCK_SHARE = 0.6

/**
 * How long a statement of a group of transactions may wait for a lock. After this time, the group fails, and each of
 * its transactions runs by itself. The limit is shorter than the time after which the server looks for deadlocks (1 s
 * by default): in a deadlock with another transaction, the group usually fails first.
 */
const GROUP_LOCK_MS_MAX = 250

export async function openPostgres(options: DatabaseOptions & { waitMsMax: number }) {
  const { url, directUrl, openedBy, log, waitMsMax, connectionsMax = CONNECTIONS_MAX } = options
  const { progress = createLoggedProgress(log), clock = () => new Date() } = options
  const name = `receivables ${openedBy}`
  const isMigrator = openedBy === 'migrator'
  // A migrator bypasses the pooler, because the time limits of the pooler's role would abort long statements.
  const hasPooler = directUrl !== undefined && !isMigrator
  const directUrls =
    directUrl === undefined ? parseServers(url) : parseServers(directUrl, 'DATABASE_DIRECT_URL')
  const isLongLived = openedBy === 'backend'
  const direct = new Primary({ urls: directUrls, log, name, hasPooler: false, isLongLived, clock })
  const primary = hasPooler
    ? new Primary({ urls: parseServers(url), log, name, hasPooler, isLongLived, clock })
    : direct
  const lockMsMax = Math.ceil(waitMsMax * LOCK_SHARE)
  const hasTimeLimits = !isMigrator
  const session = { primary, log, name, waitMsMax, lockMsMax, hasTimeLimits, hasPooler }
  try {
    await direct.start()
    const migrated = await migrateServer(direct.url, name, {
      progress,
      mayMigrate: openedBy !== 'operator',
    })
    if (hasPooler) {
      await primary.start()
      await checkRoleLimits(primary.url, name, lockMsMax)
    }
    return new PostgresDatabase({
      ...session,
      direct,
      migrated,
      connectionsMax,
      transactionWaits: options.transactionWaits,
    })
  } catch (error) {
    await Promise.all([direct.close(), primary.close()])
    throw error
  }
}

interface PostgresOptions extends Omit<SessionOptions, 'readOnly'> {
  /** Finds the server behind the pooler; equals `primary` without a pooler. */
  readonly direct: Primary
  readonly connectionsMax: number
  readonly migrated: readonly string[]
  readonly transactionWaits: DatabaseOptions['transactionWaits']
}

class PostgresDatabase implements OpenDatabase {
  readonly read: OpenDatabase['read']
  readonly isConcurrent = true
  readonly migrated: readonly string[]
  readonly #primary: Primary
  readonly #direct: Primary
  readonly #name: string
  readonly #log: Logger
  readonly #collapsingLog: CollapsingLog
  readonly #waitMsMax: number
  readonly #lockMsMax: number
  readonly #transactionWaits: DatabaseOptions['transactionWaits']
  readonly #outcomes = { committed: 0, rolledBack: 0, lost: 0 }
  readonly #writers: PostgresWriters
  readonly #groups: TransactionGroups
  readonly #readers: PostgresReaders
  readonly #names: StatementNames
  readonly #announcements: PostgresAnnouncements
  readonly #running = new AsyncLocalStorage<TransactionState>()
  /** The transactions in progress, for which `close` waits. */
  readonly #inProgress = new Set<Promise<unknown>>()
  #fault: Error | undefined
  #closing: Promise<void> | undefined

  constructor({ migrated, ...options }: PostgresOptions) {
    this.migrated = migrated
    this.#primary = options.primary
    this.#direct = options.direct
    this.#names = new StatementNames(options)
    this.#name = options.name
    this.#log = options.log
    this.#collapsingLog = createCollapsingLog(options.log)
    this.#waitMsMax = options.waitMsMax
    this.#lockMsMax = options.lockMsMax
    this.#transactionWaits = options.transactionWaits
    const readersMax = Math.max(READERS_MIN, Math.floor(options.connectionsMax * READERS_SHARE))
    const writersMax = options.connectionsMax - readersMax
    this.#writers = new PostgresWriters({
      ...options,
      connectionsMax: writersMax,
      readOnly: false,
    })
    this.#groups = new TransactionGroups({
      connect: (accountId, waitMsMax) => this.#writers.connect(accountId, waitMsMax),
      recordLoss: (cause) => this.#recordLoss(unavailable(cause), cause),
      runAlone: (work, accountId, deadline, writer) =>
        this.#runWithRetries(work, accountId, deadline, writer),
      runTogether: (works, writer) => this.#runTogether(works, writer),
      waitMsMax: options.waitMsMax,
      transactionWaits: options.transactionWaits,
    })
    this.#readers = new PostgresReaders({
      ...options,
      connectionsMax: readersMax,
      readOnly: true,
      assertUsable: () =>
        this.#assertOutside('Code inside a transaction must read through the transaction'),
    })
    this.read = kyselyOnConnection<Tables>(this.#readers)
    this.#announcements = new PostgresAnnouncements({
      connect: () => connectToPrimary(options.direct, options.name),
      query: (text, values) => this.#writers.query(text, values),
    })
  }

  get fault(): Error | undefined {
    return this.#primary.fault ?? this.#fault
  }

  get clockFault(): Error | undefined {
    return this.#primary.clockFault
  }

  activity(): DatabaseActivity {
    const { waiting, ...connections } = this.#writers.activity
    const pools = [
      { name: 'read', ...this.#readers.activity },
      { name: 'write', ...connections },
    ]
    return { ...this.#outcomes, waiting: waiting + this.#groups.waiting, pools }
  }

  async transaction<T>(
    work: (tx: Transaction) => Promise<T>,
    { accountId, debtorId }: TransactionScope = {},
  ): Promise<T> {
    this.#assertOutside('A transaction was opened inside another')
    if (this.#closing !== undefined) throw unavailable(new Error('The database is closed'))
    const outcome =
      accountId === undefined || debtorId === undefined
        ? this.#runWithRetries(work, accountId, performance.now() + this.#waitMsMax)
        : this.#groups.run(work, { accountId, debtorId })
    const ended = outcome.catch(() => {})
    this.#inProgress.add(ended)
    try {
      return await outcome
    } finally {
      this.#inProgress.delete(ended)
    }
  }

  listen(topic: string, listener: () => void): () => void {
    return this.#announcements.listen(topic, listener)
  }

  async snapshot<T>(work: (read: Reader) => Promise<T>): Promise<T> {
    const client = await openSeparateSession(this.#direct.url, this.#name)
    try {
      await client.query('begin isolation level repeatable read read only')
      const read = kyselyOnConnection<Tables>({
        executeQuery: (compiled) => query(client, compiled),
        streamQuery: noStream,
      })
      return await work(read)
    } finally {
      await client.end()
    }
  }

  async truncateWriteAheadLog(): Promise<boolean> {
    return false
  }

  close(): Promise<void> {
    this.#closing ??= (async () => {
      await Promise.all(this.#inProgress)
      await this.#announcements.close()
      await Promise.all([this.#writers.end(), this.#readers.close()])
      await Promise.all([this.#primary.close(), this.#direct.close()])
    })()
    return this.#closing
  }

  async #runWithRetries<T>(
    work: Work<T>,
    accountId: string | undefined,
    deadline: number,
    firstWriter?: Writer,
  ): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const writer =
        attempt === 1 && firstWriter !== undefined
          ? firstWriter
          : await this.#connect(accountId, deadline)
      const outcome = await this.#attempt(work, writer)
      if ('value' in outcome) {
        this.#fault = undefined
        this.#outcomes.committed++
        return outcome.value
      }
      if (attempt === ATTEMPTS_MAX || performance.now() > deadline) {
        throw this.#recordLoss(unavailable(outcome.retryable), outcome.retryable)
      }
      this.#log.info({ err: outcome.retryable, attempt }, 'transaction retried')
      // Random, so that concurrent transactions do not collide again.
      await delay(Math.random() * 10 * 2 ** attempt)
    }
  }

  async #connect(accountId: string | undefined, deadline: number): Promise<Writer> {
    const from = performance.now()
    const waitMsMax = Math.max(0, Math.ceil(deadline - from))
    const writer = await this.#writers.connect(accountId, waitMsMax).catch((error: unknown) => {
      throw this.#recordLoss(unavailable(error), error)
    })
    this.#transactionWaits?.observe((performance.now() - from) / 1000)
    return writer
  }

  async #attempt<T>(work: Work<T>, writer: Writer): Promise<AttemptOutcome<T>> {
    const connection = new TransactionConnection(writer.client, this.#names)
    try {
      return await this.#run(connection, work)
    } finally {
      // If the transaction has not ended, closing its connection aborts it.
      writer.release(!connection.hasEnded)
    }
  }

  /**
   * Returns the result of `work` after the commit, or the error because of which the transaction is retried. Throws the
   * error of `work` after a rollback, or another error that ended the transaction.
   */
  async #run<T>(
    connection: TransactionConnection,
    work: (tx: Transaction) => Promise<T>,
  ): Promise<AttemptOutcome<T>> {
    connection.begin()
    const topics = new Set<string>()
    let [outcome] = await Promise.allSettled([this.#runWork(work, connection, topics)])
    if (outcome.status === 'fulfilled' && connection.fatalError === undefined) {
      const attempt = await this.#commit(connection, outcome.value).catch((error: unknown) => {
        throw error instanceof Problem ? this.#recordLoss(error, error.cause) : error
      })
      if (attempt !== undefined) {
        if ('value' in attempt) this.#announcements.publish(topics)
        return attempt
      }
      outcome = { status: 'rejected', reason: connection.unawaitedError }
    }
    const { fatalError } = connection
    if (isReadOnlyServer(fatalError?.error)) this.#primary.reconnect()
    await connection.rollback()
    if (fatalError?.kind === 'conflict' || fatalError?.kind === 'connection_lost') {
      return { retryable: fatalError.error }
    }
    if (outcome.status === 'rejected' && fatalError?.kind !== 'unavailable') {
      this.#outcomes.rolledBack++
      throw outcome.reason
    }
    const cause = fatalError?.error ?? new Error('The transaction was lost')
    throw this.#recordLoss(
      fatalError?.kind === 'locked' ? new LockTimeout(cause) : unavailable(cause),
      cause,
    )
  }

  /** See `GroupOptions.runTogether`. The works run at the same time, so that their statements are sent together. */
  async #runTogether<T>(
    works: readonly GroupWork<T>[],
    writer: Writer,
  ): Promise<readonly T[] | undefined> {
    const connection = new TransactionConnection(writer.client, this.#names)
    try {
      connection.begin({ lockMsMax: Math.min(this.#lockMsMax, GROUP_LOCK_MS_MAX) })
      const topics = new Set<string>()
      const outcomes = await Promise.allSettled(
        works.map(({ work, asCaller }) => asCaller(() => this.#runWork(work, connection, topics))),
      )
      const results = outcomes.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
      if (results.length === works.length && connection.fatalError === undefined) {
        const attempt = await this.#commit(connection, results).catch((error: unknown) => {
          // Only `gateway_timeout` means that the transaction may have been committed. After any other error, it was
          // not committed, and the caller runs each work by itself.
          if (!(error instanceof Problem && error.code === 'gateway_timeout')) return undefined
          this.#outcomes.lost += works.length - 1
          throw this.#recordLoss(error, error.cause)
        })
        if (attempt !== undefined && 'value' in attempt) {
          this.#announcements.publish(topics)
          this.#fault = undefined
          this.#outcomes.committed += works.length
          return attempt.value
        }
      }
      if (isReadOnlyServer(connection.fatalError?.error)) this.#primary.reconnect()
      await connection.rollback()
      return undefined
    } finally {
      writer.release(!connection.hasEnded)
    }
  }

  /** Adds the topics that the work announces to `topics`. */
  async #runWork<T>(
    work: Work<T>,
    connection: TransactionConnection,
    topics: Set<string>,
  ): Promise<T> {
    const state = { active: true }
    const tx = kyselyOnConnection<Tables>(guarded(connection, state))
    collectAnnouncements(tx, topics)
    try {
      return await this.#running.run(state, () => work(tx))
    } finally {
      state.active = false
    }
  }

  /**
   * Returns undefined if a write that was not awaited has failed, so that nothing was committed. If the COMMIT failed
   * because of a conflict, returns the error, so that the transaction is retried. After any other failure of the
   * database, throws a problem: `gateway_timeout` if the outcome is unknown.
   */
  async #commit<T>(
    connection: TransactionConnection,
    value: T,
  ): Promise<AttemptOutcome<T> | undefined> {
    try {
      return (await connection.commit()) ? { value } : undefined
    } catch (error) {
      // `work` caught the error of an awaited statement and continued. This is a bug, not a failure of the database.
      if (error instanceof assert.AssertionError) throw error
      if (errorKindOf(error) === 'conflict') return { retryable: asError(error) }
      throw isCommitRefused(error) ? unavailable(error) : outcomeUnknown(error)
    }
  }

  #assertOutside(message: string): void {
    assert(!this.#running.getStore()?.active, message)
  }

  /**
   * Counts, stores and logs a failure of the database that ended a transaction for good. Returns `reported` for the
   * caller to throw.
   */
  #recordLoss(reported: Error, cause: unknown): Error {
    this.#fault = asError(cause)
    this.#outcomes.lost++
    this.#collapsingLog.error('lost', { err: cause }, 'transaction lost')
    return reported
  }
}

/** Accepts statements only while the work of the transaction runs; a later statement is a bug. */
function guarded(connection: TransactionConnection, state: TransactionState): DatabaseConnection {
  return {
    executeQuery: (compiled) => {
      assert(state.active, 'A statement ran outside of its transaction')
      return connection.executeQuery(compiled)
    },
    streamQuery: noStream,
  }
}

function noStream(): never {
  throw new Error('Lists are read in pages, not streamed')
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
