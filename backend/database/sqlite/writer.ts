/**
 * The connection that writes. A job is the work of one caller's transaction. Several jobs run in one transaction of
 * SQLite. A job that fails leaves no writes behind, and does not undo the writes of other jobs.
 *
 * Jobs that cannot affect each other run at the same time, because the round trips to SQLite's thread take longer than
 * the statements themselves: the reads of these jobs are combined (readers.ts), and so are the writes that they have
 * deferred until their end (write-batches.ts). If a job fails after it has written, or if a combined write fails, all
 * of these jobs are undone, and run again one after another.
 */
import type { CompiledQuery, DatabaseConnection } from 'kysely'
import { unavailable } from '../unavailable.ts'
import type { SqliteConnection } from './connection.ts'
import { JobConnection } from './job-connection.ts'
import { SqliteReaders } from './readers.ts'
import { WriteBatches } from './write-batches.ts'

/**
 * The maximum number of reads in one statement. It is higher than for reads outside of transactions: smaller statements
 * would not help any job, because all jobs are committed together.
 */
const READS_MAX = 64

export interface Job {
  /**
   * Runs the work, whose statements are sent over `connection`. Resolves to a function that reports the result to the
   * caller, or rejects with the error of the work. Called again if the job is repeated.
   */
  run(connection: DatabaseConnection): Promise<() => void>
  reject(error: unknown): void
}

export interface JobOutcome<J extends Job> {
  readonly job: J
  /** Reports the result or the error to the caller. */
  settle(): void
  /** Whether the job has failed, and therefore has no effect. */
  readonly isUndone: boolean
  /** How long the job took, in milliseconds. Of jobs that ran at the same time, each is charged its share. */
  readonly ms: number
}

export class Writer {
  readonly #connection: SqliteConnection
  readonly #batches: WriteBatches
  readonly #statements: StatementRunner
  readonly #readers: SqliteReaders
  #savepoint: Savepoint | undefined
  /** Whether the only job of the transaction has failed after it had begun to write. */
  #mustRollBack = false

  constructor(connection: SqliteConnection) {
    this.#connection = connection
    this.#batches = new WriteBatches(connection)
    this.#statements = createStatementRunner(connection)
    this.#readers = new SqliteReaders([this.#statements], { readsMax: READS_MAX })
  }

  /** `hasOneJob`: whether only one job will run before the commit. */
  async begin({ hasOneJob }: { readonly hasOneJob: boolean }): Promise<void> {
    // With these views, the deferred writes of a job run as one statement. A rollback would remove a view that was
    // created in the transaction.
    await this.#batches.createMissingViews()
    await this.#connection.exec('begin immediate')
    // A savepoint is not free: SQLite keeps a copy of the changed pages. A single job needs none, because its failure
    // rolls back the transaction itself.
    this.#savepoint = hasOneJob ? undefined : new Savepoint(this.#connection)
    this.#mustRollBack = false
  }

  /**
   * Runs the jobs, at the same time if there are several: none of them may depend on a write of another. An error of a
   * job is part of its outcome; `run` throws only if the transaction cannot continue.
   */
  async run<J extends Job>(jobs: readonly J[]): Promise<readonly JobOutcome<J>[]> {
    const savepoint = this.#savepoint
    if (savepoint !== undefined && jobs.length > 1) {
      const outcomes = await this.#runConcurrently(jobs, savepoint)
      if (outcomes !== undefined) return outcomes
    }
    const outcomes: JobOutcome<J>[] = []
    for (const job of jobs) outcomes.push(await this.#runAlone(job, savepoint))
    return outcomes
  }

  async commit(): Promise<void> {
    // If the only job has failed, its transaction is rolled back, and an empty one is committed instead.
    await this.#connection.commit(this.#mustRollBack ? 'rollback; begin' : '')
  }

  /** Closes the connection, which rolls back an open transaction. */
  async close(): Promise<void> {
    await this.#connection.close()
  }

  async #runAlone<J extends Job>(job: J, savepoint: Savepoint | undefined): Promise<JobOutcome<J>> {
    const from = performance.now()
    const connection = new JobConnection({
      writer: this.#statements,
      reader: this.#statements,
      batches: this.#batches,
      createSavepoint: async () => await savepoint?.create(),
    })
    const [outcome] = await Promise.allSettled([runToItsEnd(job, connection)])
    this.#assertNoFault()
    if (outcome.status === 'rejected' && connection.hasWritten) {
      if (savepoint === undefined) this.#mustRollBack = true
      // `rollBack` throws if SQLite has ended the transaction by itself.
      else await savepoint.rollBack()
    }
    return outcomeOf(job, outcome, performance.now() - from)
  }

  /** Returns undefined if the jobs were undone. The caller must then run them one after another. */
  async #runConcurrently<J extends Job>(
    jobs: readonly J[],
    savepoint: Savepoint,
  ): Promise<readonly JobOutcome<J>[] | undefined> {
    let created: Promise<void> | undefined
    const createSavepoint = () => {
      created ??= savepoint.create()
      return created
    }
    const timeShare = shareTime(jobs.length)
    const deferredWrites: CompiledQuery[] = []
    let mustRepeat = false
    const runJob = async (job: J) => {
      const connection = new JobConnection({
        writer: this.#statements,
        reader: this.#readers,
        batches: this.#batches,
        createSavepoint,
      })
      const [outcome] = await Promise.allSettled([
        runAndCollectSingleWrite(job, connection, deferredWrites),
      ])
      if (outcome.status === 'rejected' && connection.hasWritten) mustRepeat = true
      return outcomeOf(job, outcome, timeShare())
    }
    const outcomes = await Promise.all(jobs.map(runJob))
    this.#assertNoFault()
    const statements = this.#batches.combineJobs(deferredWrites)
    // A single statement needs no savepoint, because it has no effect if it fails.
    if (!mustRepeat && statements.length > 1) await createSavepoint()
    for (const statement of statements) mustRepeat ||= !(await this.#tryStatement(statement))
    if (!mustRepeat) return outcomes
    if (created !== undefined) await savepoint.rollBack()
    return undefined
  }

  /** Returns whether the statement succeeded. */
  async #tryStatement(statement: CompiledQuery): Promise<boolean> {
    const [outcome] = await Promise.allSettled([this.#statements.executeQuery(statement)])
    this.#assertNoFault()
    return outcome.status === 'fulfilled'
  }

  #assertNoFault(): void {
    if (this.#connection.fault !== undefined) throw this.#connection.fault
  }
}

async function runToItsEnd(job: Job, connection: JobConnection): Promise<() => void> {
  const settle = await job.run(connection)
  await connection.runDeferredWrites(await connection.takeDeferred())
  return settle
}

/**
 * Runs the job. If its deferred writes are a single statement, adds it to `deferredWrites`, so that it can be combined
 * with those of other jobs; otherwise, runs them.
 */
async function runAndCollectSingleWrite(
  job: Job,
  connection: JobConnection,
  deferredWrites: CompiledQuery[],
): Promise<() => void> {
  const settle = await job.run(connection)
  const statements = await connection.takeDeferred()
  if (statements.length === 1) deferredWrites.push(...statements)
  else await connection.runDeferredWrites(statements)
  return settle
}

function outcomeOf<J extends Job>(
  job: J,
  outcome: PromiseSettledResult<() => void>,
  ms: number,
): JobOutcome<J> {
  if (outcome.status === 'fulfilled') return { job, settle: outcome.value, isUndone: false, ms }
  return { job, settle: () => job.reject(outcome.reason), isUndone: true, ms }
}

type StatementRunner = Pick<SqliteConnection, 'executeQuery' | 'close'>

/**
 * Returns a wrapper of the connection that starts each statement when the one before has ended. Otherwise, concurrent
 * statements would wait for the connection in threads that other connections need. After an error that may have ended
 * the transaction, the wrapper runs no more statements, because SQLite would commit each of them alone.
 */
function createStatementRunner(connection: SqliteConnection): StatementRunner {
  let last: Promise<unknown> = Promise.resolve()
  return {
    executeQuery(query) {
      const result = last.then(() => {
        if (connection.fault !== undefined) throw unavailable(connection.fault)
        return connection.executeQuery<never>(query)
      })
      last = result.catch(() => {})
      return result
    },
    close: () => connection.close(),
  }
}

/**
 * Returns a function that must be called at the end of each of `count` jobs, and returns this job's share of the time.
 * The jobs that are still running share each moment equally.
 */
function shareTime(count: number): () => number {
  let running = count
  let share = 0
  let from = performance.now()
  return () => {
    const now = performance.now()
    share += (now - from) / running
    from = now
    running--
    return share
  }
}

/**
 * The savepoint to which a failed job, or the jobs that run at the same time, are rolled back. Each new savepoint
 * replaces the previous one.
 */
class Savepoint {
  readonly #connection: SqliteConnection
  #exists = false
  /**
   * Why the last savepoint could not be created. A rollback to an earlier savepoint would also undo other jobs, so
   * `rollBack` throws this error instead.
   */
  #failure: { readonly error: unknown } | undefined

  constructor(connection: SqliteConnection) {
    this.#connection = connection
  }

  async create(): Promise<void> {
    const text = this.#exists ? 'release job; savepoint job' : 'savepoint job'
    try {
      await this.#connection.exec(text)
    } catch (error) {
      this.#failure = { error }
      throw error
    }
    this.#exists = true
  }

  async rollBack(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error
    await this.#connection.exec('rollback to job; release job')
    this.#exists = false
  }
}
