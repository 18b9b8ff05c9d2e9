/**
 * The single writer and its queue. Waiting jobs are committed together, so that they share the cost of a write to disk.
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

/** The value that `AsyncLocalStorage` returns in the work of a job. */
interface JobState {
  /** False once the work has ended; a statement that the work runs later fails. */
  active: boolean
}

interface Job {
  /** False as soon as the job starts or is rejected; only one of the two happens. */
  waiting: boolean
  /** Whether the job was rejected because its turn did not come in time. It is then counted as lost. */
  timedOut: boolean
  /**
   * Runs the work. Resolves to a function that reports the result to the caller, or throws the work's
   * error.
   */
  run(state: JobState): Promise<() => void>
  reject(error: unknown): void
}

export interface WriteQueueOptions {
  readonly open: () => Promise<SqliteConnection>
  readonly log: Logger
  /** How long a job may wait for its turn. */
  readonly waitMsMax: number
  readonly waits?: DatabaseOptions['waits']
  readonly readers: Pick<SqliteReaders, 'pause' | 'resume'>
}

export class WriteQueue {
  readonly #open: () => Promise<SqliteConnection>
  readonly #log: Logger
  readonly #losses: CollapsingLog
  readonly #waitMsMax: number
  readonly #waits: DatabaseOptions['waits']
  readonly #readers: WriteQueueOptions['readers']
  readonly #ended = { committed: 0, rolledBack: 0, lost: 0 }
  readonly #running = new AsyncLocalStorage<JobState>()
  #waiting: Job[] = []
  #draining: Promise<void> | undefined
  #closed = false
  #writer: SqliteConnection | undefined
  #batches: WriteBatches | undefined
  /** The connection of the running job. */
  #job: JobConnection | undefined
  #fault: Error | undefined

  constructor({ open, log, waitMsMax, waits, readers }: WriteQueueOptions) {
    this.#readers = readers
    this.#waits = waits
    this.#open = open
    this.#log = log
    this.#losses = createCollapsingLog(log)
    this.#waitMsMax = waitMsMax
  }

  /** The reason for which the last group was lost; undefined once a group was committed again. */
  get fault(): Error | undefined {
    return this.#fault
  }

  activity(): DatabaseActivity {
    const waiting = this.#waiting.filter((job) => job.waiting).length
    return { ...this.#ended, waiting, pools: [] }
  }

  /** Accepts only statements of the running job; all others fail an assertion. */
  readonly connection: DatabaseConnection = {
    executeQuery: (query) => {
      assert(this.#running.getStore()?.active, 'A statement ran outside of its transaction')
      assert(this.#job !== undefined)
      return this.#job.executeQuery(query)
    },
    streamQuery() {
      throw new Error('Writes are not streamed')
    },
  }

  assertOutside(message: string): void {
    assert(!this.#running.getStore()?.active, message)
  }

  async add<T>(work: () => Promise<T>): Promise<T> {
    this.assertOutside('A transaction was opened inside another')
    if (this.#closed) throw unavailable(new Error('The database is closed'))
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    // Jobs of a group run in one asynchronous chain, but each keeps the context of its own caller.
    const asCaller = AsyncLocalStorage.snapshot()
    const addedAt = performance.now()
    const job: Job = {
      waiting: true,
      timedOut: false,
      run: async (state) => {
        job.waiting = false
        this.#waits?.observe((performance.now() - addedAt) / 1000)
        clearTimeout(timer)
        const value = await asCaller(() => this.#running.run(state, work))
        return () => resolve(value)
      },
      reject(error) {
        job.waiting = false
        clearTimeout(timer)
        reject(error)
      },
    }
    const timer = setTimeout(() => {
      this.#ended.lost++
      job.timedOut = true
      job.reject(unavailable(new Error(`The writer was not free for ${this.#waitMsMax} ms`)))
    }, this.#waitMsMax)
    this.#waiting.push(job)
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
    while (this.#waiting.length > 0) {
      const group = this.#waiting.slice(0, GROUP_MAX).filter((job) => job.waiting)
      this.#waiting = this.#waiting.slice(GROUP_MAX)
      const doneCount = group.length > 0 ? await this.#runGroup(group) : 0
      this.#waiting.unshift(...group.slice(doneCount))
    }
    this.#draining = undefined
  }

  /**
   * Returns how many jobs are done, counted from the first; the caller queues the others again. A job that has timed
   * out is done. If the group was lost, all its jobs are done.
   */
  async #runGroup(group: readonly Job[]): Promise<number> {
    const settles: (() => void)[] = []
    let undoneCount = 0
    try {
      const writer = this.#writer ?? (await this.#open())
      this.#writer = writer
      this.#batches ??= new WriteBatches(writer)
      await this.#batches.createMissing()
      this.#readers.pause()
      await writer.exec('begin immediate')
      // The limit starts when the writer has the lock, for which it may have waited.
      const endsAt = performance.now() + GROUP_MS_MAX
      // A savepoint keeps a copy of changed pages, which a single job does not need.
      const savepoint = group.length === 1 ? undefined : new Savepoint(writer)
      for (const job of group) {
        if (settles.length > 0 && performance.now() > endsAt) break
        const { settle, isUndone } = await this.#runJob(writer, this.#batches, savepoint, job)
        settles.push(settle)
        if (isUndone) undoneCount++
      }
      this.#readers.resume()
      // After the rollback of a single job, an empty transaction is committed.
      await writer.commit(savepoint === undefined && undoneCount > 0 ? 'rollback; begin' : '')
      this.#fault = undefined
    } catch (error) {
      this.#readers.resume()
      this.#fault = rootOf(error)
      this.#losses.error('lost', { err: error, jobs: group.length }, 'transactions lost')
      this.#ended.lost += group.filter((job) => !job.timedOut).length
      for (const job of group) job.reject(unavailable(error))
      await this.#dropWriter()
      return group.length
    }
    const timedOut = group.slice(0, settles.length).filter((job) => job.timedOut).length
    this.#ended.committed += settles.length - timedOut - undoneCount
    this.#ended.rolledBack += undoneCount
    for (const settle of settles) settle()
    return settles.length
  }

  /** Throws only if the outer transaction cannot continue. */
  async #runJob(
    writer: SqliteConnection,
    batches: WriteBatches,
    savepoint: Savepoint | undefined,
    job: Job,
  ): Promise<{ readonly settle: () => void; readonly isUndone: boolean }> {
    // The job may have timed out while another process had the lock.
    if (!job.waiting) return { settle: () => {}, isUndone: false }
    const state = { active: true }
    const createSavepoint = async () => await savepoint?.begin()
    const connection = new JobConnection({ writer, batches, createSavepoint })
    this.#job = connection
    const run = async () => {
      const settle = await job.run(state)
      state.active = false
      await connection.end()
      return settle
    }
    const [outcome] = await Promise.allSettled([run()])
    state.active = false
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

/** Returns the error of SQLite itself, which a `Problem` may wrap. */
function rootOf(error: unknown): Error {
  if (error instanceof Problem && error.cause instanceof Error) return error.cause
  return error instanceof Error ? error : new Error(String(error))
}
