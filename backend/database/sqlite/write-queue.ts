/**
 * The single writer and its queue, in which the accounts take turns. Jobs that wait at the same time are committed
 * together as a group, so that they share the cost of a write to disk.
 * Savepoints let a job that throws undo only its own writes. An error that ends the outer transaction rejects every job
 * of the group with 503, or with 504 if the outcome of the COMMIT is unknown. No job of a group is settled before the
 * COMMIT, not even a rejected one, because the reason for the rejection may depend on a write of the group.
 *
 * Each statement of a job waits for a turn of the event loop, and a turn takes longer the more reads it serves.
 * Readers are therefore paused while jobs run; the reads that arrived meanwhile run during the COMMIT.
 */
import assert from 'node:assert'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { DatabaseConnection } from 'kysely'
import { Problem } from '../../../shared/contract/problem.ts'
import { type CollapsingLog, createCollapsingLog } from '../../../shared/process/collapsing-log.ts'
import { FairQueue } from '../../../shared/process/fair-queue.ts'
import type { Logger } from '../../../shared/process/log.ts'
import type { DatabaseActivity, DatabaseOptions } from '../database.ts'
import { unavailable } from '../unavailable.ts'
import type { SqliteConnection } from './connection.ts'
import { JobConnection } from './job-connection.ts'
import type { SqliteReaders } from './readers.ts'
import { WriteBatches } from './write-batches.ts'

/** The maximum number of jobs in a group, which bounds how long the first job waits for the last. */
const GROUP_MAX = 64

/** After this time, a group starts no more jobs, so that reads and finished jobs do not wait long for it. */
const GROUP_MS_MAX = 50

/** A job that takes longer than this is slow. */
const SLOW_MS = 20

/** The value that `AsyncLocalStorage` returns in the work of a job. */
interface JobState {
  /** False once the work has ended; a statement that the work runs later fails. */
  active: boolean
}

interface Job {
  readonly accountId: string | undefined
  /**
   * Runs the work, whose statements are sent over `connection`. Resolves to a function that reports the result to the
   * caller, or rejects with the error of the work.
   */
  run(connection: DatabaseConnection): Promise<() => void>
  reject(error: unknown): void
}

export interface WriteQueueOptions {
  readonly open: () => Promise<SqliteConnection>
  readonly log: Logger
  /** How long a job may wait for its turn. */
  readonly waitMsMax: number
  /** Records how long each job waited for its turn. */
  readonly waits?: DatabaseOptions['waits']
  readonly readers: Pick<SqliteReaders, 'pause' | 'resume'>
}

export class WriteQueue {
  readonly #open: () => Promise<SqliteConnection>
  readonly #log: Logger
  readonly #collapsingLog: CollapsingLog
  readonly #waitMsMax: number
  readonly #waits: DatabaseOptions['waits']
  readonly #readers: WriteQueueOptions['readers']
  readonly #ended = { committed: 0, rolledBack: 0, lost: 0 }
  readonly #running = new AsyncLocalStorage<JobState>()
  /** The jobs that have neither started nor been rejected. */
  readonly #waiting = new FairQueue<Job, Job['accountId']>()
  /** The account whose job ran last. */
  #lastAccount: Job['accountId']
  /** The accounts whose last job was slow. */
  readonly #slowAccounts = new Set<Job['accountId']>()
  #draining: Promise<void> | undefined
  #closed = false
  #writer: SqliteConnection | undefined
  /** Combines the writes of a job in one statement of `#writer`. */
  #batches: WriteBatches | undefined
  #fault: Error | undefined

  constructor({ open, log, waitMsMax, waits, readers }: WriteQueueOptions) {
    this.#readers = readers
    this.#waits = waits
    this.#open = open
    this.#log = log
    this.#collapsingLog = createCollapsingLog(log)
    this.#waitMsMax = waitMsMax
  }

  /** The reason for which the last group was lost; undefined once a group was committed again. */
  get fault(): Error | undefined {
    return this.#fault
  }

  activity(): DatabaseActivity {
    return { ...this.#ended, waiting: this.#waiting.length, pools: [] }
  }

  assertOutside(message: string): void {
    assert(!this.#running.getStore()?.active, message)
  }

  /** Runs `work` as a job. The connection accepts statements only until `work` ends. */
  async add<T>(
    work: (connection: DatabaseConnection) => Promise<T>,
    accountId: string | undefined,
  ): Promise<T> {
    this.assertOutside('A transaction was opened inside another')
    if (this.#closed) throw unavailable(new Error('The database is closed'))
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    // Jobs of a group run in one asynchronous chain, but each keeps the context of its own caller.
    const asCaller = AsyncLocalStorage.snapshot()
    const addedAt = performance.now()
    const job: Job = {
      accountId,
      run: async (connection) => {
        this.#waits?.observe((performance.now() - addedAt) / 1000)
        clearTimeout(timer)
        const state = { active: true }
        const runWork = () => work(guarded(connection, state))
        try {
          const value = await asCaller(() => this.#running.run(state, runWork))
          return () => resolve(value)
        } finally {
          state.active = false
        }
      },
      reject(error) {
        clearTimeout(timer)
        reject(error)
      },
    }
    const timer = setTimeout(() => {
      this.#ended.lost++
      this.#waiting.remove(accountId, job)
      job.reject(unavailable(new Error(`The writer was not free for ${this.#waitMsMax} ms`)))
    }, this.#waitMsMax)
    this.#waiting.push(accountId, job)
    this.#draining ??= this.#drain()
    return promise
  }

  /** Finishes the queued jobs and accepts no more. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#draining
    await this.#dropWriter()
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) await this.#runGroup(Math.min(this.#waiting.length, GROUP_MAX))
    this.#draining = undefined
  }

  /**
   * Runs at most `size` jobs and commits them together. If the group is lost, `size` jobs are rejected, including those
   * that have not started: they would probably fail for the same reason, but only after another wait.
   */
  async #runGroup(size: number): Promise<void> {
    const group: Job[] = []
    const settles: (() => void)[] = []
    let undoneCount = 0
    try {
      const writer = this.#writer ?? (await this.#open())
      this.#writer = writer
      this.#batches ??= new WriteBatches(writer)
      await this.#batches.createMissingViews()
      this.#readers.pause()
      await writer.exec('begin immediate')
      // The limit starts when the writer has the lock, for which it may have waited.
      const endsAt = performance.now() + GROUP_MS_MAX
      // A savepoint keeps a copy of changed pages, which a single job does not need.
      const savepoint = size === 1 ? undefined : new Savepoint(writer)
      while (group.length < size && (group.length === 0 || performance.now() <= endsAt)) {
        const job = this.#takeNext(group)
        if (job === undefined) break
        group.push(job)
        const from = performance.now()
        const { settle, isUndone } = await this.#runJob(writer, this.#batches, savepoint, job)
        this.#recordDuration(job, performance.now() - from)
        settles.push(settle)
        if (isUndone) undoneCount++
      }
      this.#readers.resume()
      // `commit` always commits a transaction. After the rollback of a single job, this transaction is empty.
      await writer.commit(savepoint === undefined && undoneCount > 0 ? 'rollback; begin' : '')
      this.#fault = undefined
    } catch (error) {
      this.#readers.resume()
      this.#fault = rootOf(error)
      const unstarted = Array.from({ length: size - group.length }, () => this.#waiting.shift())
      group.push(...unstarted.filter((job) => job !== undefined))
      this.#collapsingLog.error('lost', { err: error, jobs: group.length }, 'transactions lost')
      this.#ended.lost += group.length
      for (const job of group) job.reject(unavailable(error))
      await this.#dropWriter()
      return
    }
    this.#ended.committed += settles.length - undoneCount
    this.#ended.rolledBack += undoneCount
    for (const settle of settles) settle()
  }

  /**
   * Removes and returns the next job for the group, or returns undefined if the group should be committed first: a job
   * that is probably slow would delay the responses of other accounts whose jobs are in the group.
   */
  #takeNext(group: readonly Job[]): Job | undefined {
    const last = group.at(-1)
    return this.#waiting.shift((accountId) => {
      const wouldDelay = last !== undefined && last.accountId !== accountId
      if (wouldDelay && this.#slowAccounts.has(accountId)) return Number.POSITIVE_INFINITY
      // The account whose job ran last is served after the others, even after those that arrived while its job ran.
      return accountId === this.#lastAccount ? 1 : 0
    })
  }

  #recordDuration({ accountId }: Job, ms: number): void {
    this.#lastAccount = accountId
    if (ms > SLOW_MS) this.#slowAccounts.add(accountId)
    else this.#slowAccounts.delete(accountId)
  }

  /** Throws only if the outer transaction cannot continue. */
  async #runJob(
    writer: SqliteConnection,
    batches: WriteBatches,
    savepoint: Savepoint | undefined,
    job: Job,
  ): Promise<{ readonly settle: () => void; readonly isUndone: boolean }> {
    const createSavepoint = async () => await savepoint?.begin()
    const connection = new JobConnection({ writer, batches, createSavepoint })
    const run = async () => {
      const settle = await job.run(connection)
      await connection.end()
      return settle
    }
    const [outcome] = await Promise.allSettled([run()])
    if (writer.fault !== undefined) throw writer.fault
    if (outcome.status === 'fulfilled') return { settle: outcome.value, isUndone: false }
    // The rollback fails if SQLite has ended the outer transaction by itself.
    if (connection.hasWritten) await savepoint?.rollBack()
    return { settle: () => job.reject(outcome.reason), isUndone: true }
  }

  /** Closing rolls back from any state; the next group opens another connection. */
  async #dropWriter(): Promise<void> {
    const writer = this.#writer
    this.#writer = undefined
    this.#batches = undefined
    await writer
      ?.close()
      .catch((error: unknown) => this.#log.error({ err: error }, 'closing the writer failed'))
  }
}

/**
 * The savepoint of the running job. The savepoint of an earlier job is released when the next savepoint is
 * created.
 */
class Savepoint {
  readonly #writer: SqliteConnection
  #isOpen = false

  constructor(writer: SqliteConnection) {
    this.#writer = writer
  }

  async begin(): Promise<void> {
    await this.#writer.exec(this.#isOpen ? 'release job; savepoint job' : 'savepoint job')
    this.#isOpen = true
  }

  async rollBack(): Promise<void> {
    await this.#writer.exec('rollback to job; release job')
    this.#isOpen = false
  }
}

function guarded(connection: DatabaseConnection, state: JobState): DatabaseConnection {
  return {
    executeQuery: (query) => {
      assert(state.active, 'A statement ran outside of its transaction')
      return connection.executeQuery(query)
    },
    streamQuery() {
      throw new Error('Writes are not streamed')
    },
  }
}

/** Returns the error of SQLite itself, which a `Problem` may wrap. */
function rootOf(error: unknown): Error {
  if (error instanceof Problem && error.cause instanceof Error) return error.cause
  return error instanceof Error ? error : new Error(String(error))
}
