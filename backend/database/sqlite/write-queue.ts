/**
 * Queues jobs for the single writer. The accounts take turns. Jobs that wait at the same time are committed
 * together as a group, so that they share the cost of a write to disk. Consecutive short jobs of different debtors run
 * at the same time (writer.ts), all other jobs one after another.
 *
 * If a job throws, only its own writes are undone; jobs that ran at the same time may be repeated. An error that ends
 * the whole transaction of SQLite rejects every job of the group with 503, or with 504 if the outcome of the COMMIT is
 * unknown. No job of a group is settled before the COMMIT, not even a rejected one, because the reason for the
 * rejection may depend on a write of the group.
 *
 * Each statement of a job waits for a turn of the event loop, and a turn takes longer the more reads it serves. Readers
 * are therefore paused while jobs run, for at most `PAUSE_MS_MAX` (readers.ts).
 */
import assert from 'node:assert'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { DatabaseConnection } from 'kysely'
import { LRUCache } from 'lru-cache'
import { Problem } from '../../../shared/contract/problem.ts'
import { type CollapsingLog, createCollapsingLog } from '../../../shared/process/collapsing-log.ts'
import { FairQueue } from '../../../shared/process/fair-queue.ts'
import type { Logger } from '../../../shared/process/log.ts'
import type { DatabaseActivity, DatabaseOptions, TransactionScope } from '../database.ts'
import { unavailable } from '../unavailable.ts'
import type { SqliteConnection } from './connection.ts'
import type { SqliteReaders } from './readers.ts'
import { type Job, type JobOutcome, Writer } from './writer.ts'

/** The maximum number of jobs in a group, which bounds how long the first job waits for the last. */
const GROUP_MAX = 64

/** After this time, a group starts no more jobs, so that reads and finished jobs do not wait long for it. */
const GROUP_MS_MAX = 50

/**
 * A job that takes longer than this is slow. Jobs run at the same time only if the sum of their expected times is at
 * most this.
 */
const SLOW_MS = 20

/**
 * The maximum number of jobs that run at the same time. The time limit of a group is checked only when these jobs have
 * ended.
 */
const CONCURRENT_MAX = 32

/** The expected time of a job if no job of its account has ended yet. Eight such jobs may run at the same time. */
const JOB_MS_INITIAL = SLOW_MS / 8

const ACCOUNTS_MAX = 1000

interface WorkState {
  active: boolean
}

interface QueuedJob extends Job, TransactionScope {
  /** Called when the job leaves the queue to run. */
  start(): void
}

export interface WriteQueueOptions {
  readonly open: () => Promise<SqliteConnection>
  readonly log: Logger
  /** How long a job may wait for its turn. */
  readonly waitMsMax: number
  readonly transactionWaits?: DatabaseOptions['transactionWaits']
  readonly readers: Pick<SqliteReaders, 'pause' | 'resume'>
}

export class WriteQueue {
  readonly #open: () => Promise<SqliteConnection>
  readonly #log: Logger
  readonly #collapsingLog: CollapsingLog
  readonly #waitMsMax: number
  readonly #transactionWaits: DatabaseOptions['transactionWaits']
  readonly #readers: WriteQueueOptions['readers']
  readonly #ended = { committed: 0, rolledBack: 0, lost: 0 }
  readonly #running = new AsyncLocalStorage<WorkState>()
  /** The jobs that have neither started nor been rejected. */
  readonly #waiting = new FairQueue<QueuedJob, TransactionScope['accountId']>()
  #lastAccount: TransactionScope['accountId']
  /** The expected time of a job of each account, see `#recordDurations`. */
  readonly #jobMs = new LRUCache<string, number>({ max: ACCOUNTS_MAX })
  #draining: Promise<void> | undefined
  #closed = false
  #writer: Writer | undefined
  #fault: Error | undefined

  constructor({ open, log, waitMsMax, transactionWaits, readers }: WriteQueueOptions) {
    this.#readers = readers
    this.#transactionWaits = transactionWaits
    this.#open = open
    this.#log = log
    this.#collapsingLog = createCollapsingLog(log)
    this.#waitMsMax = waitMsMax
  }

  /** The reason why the last group was lost; undefined if it was committed. */
  get fault(): Error | undefined {
    return this.#fault
  }

  activity(): DatabaseActivity {
    return { ...this.#ended, waiting: this.#waiting.length, pools: [] }
  }

  /** Throws an error with this message if the caller runs inside a job. */
  assertOutside(message: string): void {
    assert(!this.#running.getStore()?.active, message)
  }

  /** Runs `work` as a job. The connection accepts statements only until `work` ends. */
  async add<T>(
    work: (connection: DatabaseConnection) => Promise<T>,
    { accountId, debtorId }: TransactionScope,
  ): Promise<T> {
    this.assertOutside('A transaction was opened inside another')
    if (this.#closed) throw unavailable(new Error('The database is closed'))
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    // The jobs of a group run in one asynchronous chain, but each keeps the context of its own caller.
    const asCaller = AsyncLocalStorage.snapshot()
    const addedAt = performance.now()
    const job: QueuedJob = {
      accountId,
      debtorId,
      start: () => {
        this.#transactionWaits?.observe((performance.now() - addedAt) / 1000)
        clearTimeout(timer)
      },
      run: async (connection) => {
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
    const group: QueuedJob[] = []
    const outcomes: JobOutcome<QueuedJob>[] = []
    try {
      this.#writer ??= new Writer(await this.#open())
      this.#readers.pause()
      await this.#writer.begin({ hasOneJob: size === 1 })
      // The limit starts when the writer has the lock, for which it may have waited.
      const endsAt = performance.now() + GROUP_MS_MAX
      while (group.length === 0 || performance.now() <= endsAt) {
        const jobs = this.#takeNext(group, size - group.length)
        if (jobs.length === 0) break
        group.push(...jobs)
        const ended = await this.#writer.run(jobs)
        outcomes.push(...ended)
        this.#recordDurations(ended)
      }
      this.#readers.resume()
      await this.#writer.commit()
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
    for (const { isUndone, settle } of outcomes) {
      if (isUndone) this.#ended.rolledBack++
      else this.#ended.committed++
      settle()
    }
  }

  /**
   * Removes and returns the next jobs for the group: either jobs of different debtors, which run at the same time, or a
   * job without a debtor. Returns none if no job waits, or if the group should be committed before the next job.
   */
  #takeNext(group: readonly QueuedJob[], max: number): QueuedJob[] {
    const jobs: QueuedJob[] = []
    const debtorIds = new Set<string>()
    let jobsMs = 0
    const isAccepted = (candidate: QueuedJob) => {
      const { debtorId } = candidate
      if (jobs.length === 0) return true
      if (debtorId === undefined || debtorIds.has(debtorId)) return false
      return jobsMs + this.#jobMsOf(candidate) <= SLOW_MS
    }
    while (jobs.length < Math.min(max, CONCURRENT_MAX)) {
      const job = this.#takeOne(jobs.at(-1) ?? group.at(-1), isAccepted)
      if (job === undefined) break
      jobs.push(job)
      if (job.debtorId === undefined) break
      debtorIds.add(job.debtorId)
      jobsMs += this.#jobMsOf(job)
    }
    return jobs
  }

  /**
   * Removes and returns the next job that may join the group; undefined if there is none, or if `isAccepted` rejects
   * it. `before` is the last job of the group so far. Its caller gets a response only after the group is committed, so
   * a job of another account that is probably slow may not join the group.
   */
  #takeOne(
    before: QueuedJob | undefined,
    isAccepted: (job: QueuedJob) => boolean,
  ): QueuedJob | undefined {
    const job = this.#waiting.shift((accountId) => {
      const wouldDelay = before !== undefined && before.accountId !== accountId
      const isSlow = this.#jobMsOf({ accountId }) > SLOW_MS
      // With this rank, `shift` does not serve the account.
      if (wouldDelay && isSlow) return Number.POSITIVE_INFINITY
      // The account whose job started last is served after the others, even after those whose jobs arrived later.
      return accountId === this.#lastAccount ? 1 : 0
    }, isAccepted)
    if (job === undefined) return undefined
    this.#lastAccount = job.accountId
    job.start()
    return job
  }

  #jobMsOf({ accountId }: Pick<QueuedJob, 'accountId'>): number {
    return this.#jobMs.get(keyOf(accountId)) ?? JOB_MS_INITIAL
  }

  #recordDurations(outcomes: readonly JobOutcome<QueuedJob>[]): void {
    for (const [key, ofAccount] of Map.groupBy(outcomes, ({ job }) => keyOf(job.accountId))) {
      const mean = ofAccount.reduce((sum, { ms }) => sum + ms, 0) / ofAccount.length
      // Jobs that run at the same time share the time, so a slow job among many looks fast. The expected time therefore
      // has a lower limit, so that the next jobs that run together are at most twice as many as these. The limit is
      // never above `JOB_MS_INITIAL` or the previous expected time.
      const previous = this.#jobMs.get(key) ?? JOB_MS_INITIAL
      const min = Math.min(JOB_MS_INITIAL, previous, SLOW_MS / (2 * outcomes.length))
      this.#jobMs.set(key, Math.max(mean, min))
    }
  }

  async #dropWriter(): Promise<void> {
    const writer = this.#writer
    this.#writer = undefined
    await writer
      ?.close()
      .catch((error: unknown) => this.#log.error({ err: error }, 'closing the writer failed'))
  }
}

function keyOf(accountId: TransactionScope['accountId']): string {
  return accountId ?? ''
}

function guarded(connection: DatabaseConnection, state: WorkState): DatabaseConnection {
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
