/**
 * PostgreSQL: any number of backends on one database. Transactions are READ COMMITTED on a
 * connection of their own; who decides by what it read locks the row first. One that the database
 * gave up for another's sake (a deadlock) is run again here; its caller never knows.
 */
import assert from 'node:assert'
import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import type { DatabaseConnection } from 'kysely'
import type pg from 'pg'
import type { Logger } from '../../../shared/process/log.ts'
import { createRepeatedLog, type RepeatedLog } from '../../../shared/process/repeated-log.ts'
import type {
  DatabaseActivity,
  DatabaseOptions,
  OpenDatabase,
  Reader,
  Transaction,
} from '../database.ts'
import type { Tables } from '../tables.ts'
import { LockTimeout, outcomeUnknown, unavailable } from '../unavailable.ts'
import { connectAlone, createPool, query, TransactionConnection } from './connection.ts'
import { isCommitRefused, troubleOf } from './errors.ts'
import { kyselyOnConnection } from './kysely.ts'
import { migrateServer } from './migration.ts'
import { PostgresReaders } from './readers.ts'
import { StatementNames } from './statement-names.ts'

const CONNECTIONS_MAX = 15

/** Apart, so that transactions that wait for one row do not keep others from being read. */
const READERS_SHARE = 1 / 3

/** One for quick reads, one for any other. */
const READERS_MIN = 2

/** How often a transaction is run at most. */
const ATTEMPTS_MAX = 5

/** Carried along a transaction's asynchronous calls; inactive once it has ended. */
interface Running {
  active: boolean
}

/** What a transaction came to: a value, an error, or to be run again. */
type Attempt<T> = { readonly value: T } | { readonly again: Error }

export async function openPostgres(options: DatabaseOptions & { waitMsMax: number }) {
  const { url, user } = options
  const name = `receivables ${user}`
  const migrated = await migrateServer(url, name, user)
  const { connectionsMax = CONNECTIONS_MAX } = options
  const isPatient = user === 'migrator'
  return new PostgresDatabase({ ...options, name, migrated, connectionsMax, isPatient })
}

interface PostgresOptions {
  readonly url: string
  readonly log: Logger
  readonly name: string
  readonly waitMsMax: number
  readonly connectionsMax: number
  readonly isPatient: boolean
  readonly migrated: readonly string[]
  readonly waits?: DatabaseOptions['waits']
}

class PostgresDatabase implements OpenDatabase {
  readonly read: OpenDatabase['read']
  readonly isConcurrent = true
  readonly migrated: readonly string[]
  readonly #url: string
  readonly #name: string
  readonly #log: Logger
  readonly #losses: RepeatedLog
  readonly #waitMsMax: number
  readonly #waits: DatabaseOptions['waits']
  readonly #ended = { committed: 0, rolledBack: 0, lost: 0 }
  readonly #writers: pg.Pool
  readonly #readers: PostgresReaders
  readonly #names = new StatementNames()
  readonly #running = new AsyncLocalStorage<Running>()
  readonly #begun = new Set<Promise<unknown>>()
  #fault: Error | undefined
  #closing: Promise<void> | undefined

  constructor({ migrated, ...options }: PostgresOptions) {
    this.migrated = migrated
    this.#url = options.url
    this.#name = options.name
    this.#log = options.log
    this.#losses = createRepeatedLog(options.log)
    this.#waitMsMax = options.waitMsMax
    this.#waits = options.waits
    // Waiting for a connection and then for a row stays inside the gateway's deadline.
    const pool = { ...options, lockMsMax: Math.ceil(options.waitMsMax * 0.6) }
    const readers = Math.max(READERS_MIN, Math.floor(options.connectionsMax * READERS_SHARE))
    const writers = options.connectionsMax - readers
    this.#writers = createPool({ ...pool, connectionsMax: writers, readOnly: false })
    this.#readers = new PostgresReaders({
      ...pool,
      connectionsMax: readers,
      readOnly: true,
      assertUsable: () => this.#assertOutside('Inside a transaction, read through it'),
    })
    this.read = kyselyOnConnection<Tables>(this.#readers)
  }

  get fault(): Error | undefined {
    return this.#fault
  }

  activity(): DatabaseActivity {
    const { totalCount, idleCount: idle } = this.#writers
    const pools = [
      { name: 'read', ...this.#readers.activity },
      { name: 'write', busy: totalCount - idle, idle },
    ]
    return { ...this.#ended, waiting: this.#writers.waitingCount, pools }
  }

  async transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    this.#assertOutside('A transaction was opened inside another')
    if (this.#closing !== undefined) throw unavailable(new Error('The database is closed'))
    const outcome = this.#repeat(work)
    const ended = outcome.catch(() => {})
    this.#begun.add(ended)
    try {
      return await outcome
    } finally {
      this.#begun.delete(ended)
    }
  }

  async snapshot<T>(work: (read: Reader) => Promise<T>): Promise<T> {
    const client = await connectAlone(this.#url, this.#name)
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

  async emptyLog(): Promise<boolean> {
    return false
  }

  close(): Promise<void> {
    this.#closing ??= (async () => {
      await Promise.all(this.#begun)
      await Promise.all([this.#writers.end(), this.#readers.close()])
    })()
    return this.#closing
  }

  async #repeat<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    const deadline = performance.now() + this.#waitMsMax
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await this.#attempt(work)
      if ('value' in outcome) {
        this.#fault = undefined
        this.#ended.committed++
        return outcome.value
      }
      this.#log.info({ err: outcome.again, attempt }, 'transaction repeated')
      if (attempt === ATTEMPTS_MAX || performance.now() > deadline) {
        throw this.#lose(unavailable(outcome.again), outcome.again)
      }
      // Not all at once again.
      await delay(Math.random() * 10 * 2 ** attempt)
    }
  }

  async #attempt<T>(work: (tx: Transaction) => Promise<T>): Promise<Attempt<T>> {
    const from = performance.now()
    const client = await this.#writers.connect().catch((error: unknown) => {
      throw this.#lose(unavailable(error), error)
    })
    this.#waits?.observe((performance.now() - from) / 1000)
    const connection = new TransactionConnection(client, this.#names)
    try {
      return await this.#run(connection, work)
    } finally {
      // Closing a connection ends whatever it was in the middle of.
      client.release(!connection.hasEnded)
    }
  }

  /** Throws what `work` throws with the transaction rolled back, or what became of the transaction. */
  async #run<T>(
    connection: TransactionConnection,
    work: (tx: Transaction) => Promise<T>,
  ): Promise<Attempt<T>> {
    connection.begin()
    const state = { active: true }
    const tx = kyselyOnConnection<Tables>(guarded(connection, state))
    let [outcome] = await Promise.allSettled([this.#running.run(state, () => work(tx))])
    state.active = false
    if (outcome.status === 'fulfilled' && connection.trouble === undefined) {
      const attempt = await this.#commit(connection, outcome.value)
      if (attempt !== undefined) return attempt
      outcome = { status: 'rejected', reason: connection.failure }
    }
    const { trouble } = connection
    await connection.rollback()
    if (trouble?.kind === 'conflict' || trouble?.kind === 'lost') return { again: trouble.error }
    if (outcome.status === 'rejected' && trouble?.kind !== 'away') {
      this.#ended.rolledBack++
      throw outcome.reason
    }
    const cause = trouble?.error ?? new Error('The transaction was lost')
    throw this.#lose(
      trouble?.kind === 'locked' ? new LockTimeout(cause) : unavailable(cause),
      cause,
    )
  }

  /** Undefined where the connection's `failure` kept it from being committed. */
  async #commit<T>(connection: TransactionConnection, value: T): Promise<Attempt<T> | undefined> {
    try {
      return (await connection.commit()) ? { value } : undefined
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error
      if (troubleOf(error) === 'conflict') return { again: asError(error) }
      throw this.#lose(isCommitRefused(error) ? unavailable(error) : outcomeUnknown(error), error)
    }
  }

  #assertOutside(message: string): void {
    assert(!this.#running.getStore()?.active, message)
  }

  /** Remembers why a transaction was lost. */
  #lose(told: Error, cause: unknown): Error {
    this.#fault = asError(cause)
    this.#ended.lost++
    this.#losses.error('lost', { err: cause }, 'transaction lost')
    return told
  }
}

/** For statements of the transaction while it runs; any other is a mistake. */
function guarded(connection: TransactionConnection, state: Running): DatabaseConnection {
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
