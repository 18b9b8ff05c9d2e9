/**
 * The one writer and its queue. Jobs that wait are committed together, each in a savepoint of its
 * own, so that the price of reaching the disk is shared: a job that throws undoes its own writes
 * alone; an error that ends the outer transaction is 503 for every job of the group. Nobody is
 * answered before the COMMIT, not even those refused: their reason may rest on a write of the group.
 */
import assert from 'node:assert'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { DatabaseConnection } from 'kysely'
import { Problem } from '../../../shared/contract/problem.ts'
import type { Logger } from '../../../shared/process/log.ts'
import { createRepeatedLog, type RepeatedLog } from '../../../shared/process/repeated-log.ts'
import type { DatabaseActivity, DatabaseOptions } from '../database.ts'
import { unavailable } from '../unavailable.ts'
import type { SqliteConnection } from './connection.ts'

/** Jobs committed together: bounds how long the first of a group waits for the last. */
const GROUP_MAX = 64

/** No more jobs are begun in a group that has taken this long: a long one is waited for by few. */
const GROUP_MS_MAX = 100

const AMONG_OTHERS = {
  begin: '; savepoint job',
  keep: 'release job',
  undo: 'rollback to job; release job',
}
// What is committed after a rollback is nothing.
const ALONE = { begin: '', keep: '', undo: 'rollback; begin' }

/** Carried along the job's asynchronous calls; inactive once its savepoint is settled. */
interface JobState {
  active: boolean
}

interface Job {
  /** False from the moment its work starts or it is refused: a job does one of the two. */
  waiting: boolean
  /** Runs the work; resolves to what tells its caller, or throws what the work threw. */
  run(state: JobState): Promise<() => void>
  refuse(error: unknown): void
}

export interface WriteQueueOptions {
  readonly open: () => Promise<SqliteConnection>
  readonly log: Logger
  /** How long a job may wait for its turn. */
  readonly waitMsMax: number
  readonly waits?: DatabaseOptions['waits']
}

export class WriteQueue {
  readonly #open: () => Promise<SqliteConnection>
  readonly #log: Logger
  readonly #losses: RepeatedLog
  readonly #waitMsMax: number
  readonly #waits: DatabaseOptions['waits']
  readonly #ended = { committed: 0, rolledBack: 0, lost: 0 }
  readonly #running = new AsyncLocalStorage<JobState>()
  #waiting: Job[] = []
  #draining: Promise<void> | undefined
  #closed = false
  #writer: SqliteConnection | undefined
  #fault: Error | undefined

  constructor({ open, log, waitMsMax, waits }: WriteQueueOptions) {
    this.#waits = waits
    this.#open = open
    this.#log = log
    this.#losses = createRepeatedLog(log)
    this.#waitMsMax = waitMsMax
  }

  /** Why the last group was lost; undefined once one was committed again. */
  get fault(): Error | undefined {
    return this.#fault
  }

  activity(): DatabaseActivity {
    const waiting = this.#waiting.filter((job) => job.waiting).length
    return { ...this.#ended, waiting, pools: [] }
  }

  /** For statements of the job that runs; those of anything else fail an assertion. */
  readonly connection: DatabaseConnection = {
    executeQuery: (query) => {
      assert(this.#running.getStore()?.active, 'A statement ran outside of its transaction')
      assert(this.#writer !== undefined)
      return this.#writer.executeQuery(query)
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
    // Jobs of a group run on one chain of calls; each keeps the context of its own caller.
    const asCaller = AsyncLocalStorage.snapshot()
    const addedAt = performance.now()
    const job: Job = {
      waiting: true,
      run: async (state) => {
        job.waiting = false
        this.#waits?.observe((performance.now() - addedAt) / 1000)
        clearTimeout(timer)
        const value = await asCaller(() => this.#running.run(state, work))
        return () => resolve(value)
      },
      refuse(error) {
        job.waiting = false
        clearTimeout(timer)
        reject(error)
      },
    }
    const timer = setTimeout(() => {
      this.#ended.lost++
      job.refuse(unavailable(new Error(`The writer was not free for ${this.#waitMsMax} ms`)))
    }, this.#waitMsMax)
    this.#waiting.push(job)
    this.#draining ??= this.#drain()
    return promise
  }

  /** Finishes what was added, adds nothing more. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#draining
    await this.#dropWriter()
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group = this.#waiting.slice(0, GROUP_MAX).filter((job) => job.waiting)
      this.#waiting = this.#waiting.slice(GROUP_MAX)
      const begun = group.length > 0 ? await this.#runGroup(group) : 0
      this.#waiting.unshift(...group.slice(begun))
    }
    this.#draining = undefined
  }

  /** Returns how many of them, from the first, have had their turn. */
  async #runGroup(group: readonly Job[]): Promise<number> {
    const answers: (() => void)[] = []
    let undone = 0
    try {
      const writer = this.#writer ?? (await this.#open())
      this.#writer = writer
      // A savepoint keeps a copy of what is changed; who is alone needs none.
      const steps = group.length === 1 ? ALONE : AMONG_OTHERS
      // What ends one step and begins the next goes to the database in one call.
      let ending = 'begin immediate'
      let endsAt = Infinity
      for (const job of group) {
        if (answers.length > 0 && performance.now() > endsAt) break
        await writer.exec(ending + steps.begin)
        // From when it had the lock, for which it may have waited.
        if (answers.length === 0) endsAt = performance.now() + GROUP_MS_MAX
        const { answer, undo } = await this.#runJob(writer, job)
        answers.push(answer)
        if (undo) undone++
        // The rollback fails where SQLite has ended the outer transaction by itself.
        ending = undo ? steps.undo : steps.keep
      }
      await writer.commit(ending)
      this.#fault = undefined
    } catch (error) {
      this.#fault = rootOf(error)
      this.#losses.error('lost', { err: error, jobs: group.length }, 'transactions lost')
      this.#ended.lost += group.length
      for (const job of group) job.refuse(unavailable(error))
      await this.#dropWriter()
      return group.length
    }
    this.#ended.committed += answers.length - undone
    this.#ended.rolledBack += undone
    for (const answer of answers) answer()
    return answers.length
  }

  /** Throws only where the outer transaction cannot go on. */
  async #runJob(
    writer: SqliteConnection,
    job: Job,
  ): Promise<{ readonly answer: () => void; readonly undo: boolean }> {
    // It may have run out of patience while another process held the lock.
    if (!job.waiting) return { answer: () => {}, undo: false }
    const state = { active: true }
    const [outcome] = await Promise.allSettled([job.run(state)])
    state.active = false
    if (writer.fault !== undefined) throw writer.fault
    return outcome.status === 'fulfilled'
      ? { answer: outcome.value, undo: false }
      : { answer: () => job.refuse(outcome.reason), undo: true }
  }

  /** Whatever state it was left in, closing rolls back; the next group opens another. */
  async #dropWriter(): Promise<void> {
    const writer = this.#writer
    this.#writer = undefined
    await writer
      ?.close()
      .catch((error: unknown) => this.#log.error({ err: error }, 'writer not closed'))
  }
}

/** Statements and transactions report the same error, the latter wrapped for the caller. */
function rootOf(error: unknown): Error {
  if (error instanceof Problem && error.cause instanceof Error) return error.cause
  return error instanceof Error ? error : new Error(String(error))
}
