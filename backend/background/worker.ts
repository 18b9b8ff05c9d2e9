/**
 * Work beside the calls, done in rounds for as long as the process lives; never two rounds at once.
 * How long a worker sleeps between rounds is decided here alone.
 */
import type { Logger } from '../../shared/process/log.ts'

export interface Worker {
  /** Begins the next round now. During a round: begins another one right after it. */
  wake(): void
  /** Aborts the signal of the round under way and resolves when it has ended; begins no other. */
  stop(): Promise<void>
}

export interface WorkerOptions {
  /** For the log. */
  readonly name: string
  /** From the end of a round to the beginning of the next. */
  readonly everyMs: number
  /** The same after a round that failed; as after others where it is absent. */
  readonly afterErrorMs?: number
  readonly log: Logger
  /** Runs before the first round, and again before the next one if it fails. */
  prepare?(): Promise<void>
  /**
   * Does what is due; long work looks at `signal` between its steps. Resolves with the milliseconds
   * to wait for the next round where these are not `everyMs`: 0 if there may be more to do.
   */
  round(signal: AbortSignal): Promise<number | undefined>
}

/** Begins the first round at once. */
export function startWorker(options: WorkerOptions): Worker {
  const { name, everyMs, afterErrorMs = everyMs, log, prepare, round } = options
  const stopping = new AbortController()
  const { signal } = stopping
  let woken = Promise.withResolvers<void>()
  let isPrepared = prepare === undefined

  async function attempt(): Promise<number> {
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
