/** Workers do background work in rounds while the process runs. The rounds of one worker never overlap. */
import type { Logger } from '../../shared/process/log.ts'
import type { Database } from '../database/database.ts'

/**
 * The usual maximum pause of workers that announcements wake, or that sleep until the next row is due. Work whose
 * announcement was missed waits no longer than this. On SQLite, an announcement reaches only the process that makes it;
 * on both databases, it is lost if this process is killed right after the commit.
 */
export const POLL_MS = 5000

export interface Worker {
  /** Starts the next round now or, during a round, right after this round. */
  wake(): void
  /** Aborts the signal of the current round and resolves when the round has ended. No other round starts. */
  stop(): Promise<void>
}

export interface WorkerDeps {
  readonly database: Database
  readonly clock: () => Date
  readonly log: Logger
}

export interface WorkerOptions {
  /** The subject of log messages, e.g. `retention` in "retention failed". */
  readonly name: string
  /** The pause after a round that resolves with undefined. */
  readonly everyMs: number
  /** The pause after a failed round; `everyMs` if absent. */
  readonly afterErrorMs?: number
  readonly log: Logger
  /** While the database reports that the clock of this machine is wrong, no round starts. */
  readonly database: Pick<Database, 'clockFault'>
  /** Runs once before the first round. If `prepare` fails, it runs again after a pause, before any round. */
  prepare?(): Promise<void>
  /**
   * Does the due work; long work checks `signal` between its steps. Resolves with the milliseconds until
   * the next round, 0 if there may be more to do, or undefined for `everyMs`.
   */
  round(signal: AbortSignal): Promise<number | undefined>
}

/** Starts a worker that transactions wake by announcing `topic`. */
export function startListeningWorker(
  options: WorkerOptions & {
    readonly database: Pick<Database, 'clockFault' | 'listen'>
    readonly topic: string
  },
): Worker {
  const worker = startWorker(options)
  const stopListening = options.database.listen(options.topic, worker.wake)
  return {
    wake: worker.wake,
    stop() {
      stopListening()
      return worker.stop()
    },
  }
}

/** Starts the first round immediately. */
export function startWorker(options: WorkerOptions): Worker {
  const { name, everyMs, afterErrorMs = everyMs, log, database, prepare, round } = options
  const stopping = new AbortController()
  const { signal } = stopping
  let woken = Promise.withResolvers<void>()
  let isPrepared = prepare === undefined

  /** Resolves to the pause until the next round, in milliseconds. */
  async function attempt(): Promise<number> {
    // With a wrong clock, a round would send what is not due yet, take over leases that are valid, or delete too much.
    // The worker soon checks the clock again.
    if (database.clockFault !== undefined) return Math.min(everyMs, POLL_MS)
    try {
      if (!isPrepared) await prepare?.()
      isPrepared = true
      return (await round(signal)) ?? everyMs
    } catch (error) {
      log.error({ err: error }, `${name} failed`)
      return afterErrorMs
    }
  }

  async function sleep(ms: number): Promise<void> {
    const timer = setTimeout(woken.resolve, ms)
    await woken.promise
    clearTimeout(timer)
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      woken = Promise.withResolvers()
      const ms = await attempt()
      if (ms > 0 && !signal.aborted) await sleep(ms)
    }
  }

  const running = run()
  return {
    wake: () => woken.resolve(),
    stop() {
      stopping.abort()
      woken.resolve()
      return running
    },
  }
}
