/** Work that is done again and again beside the calls, e.g. once a minute; never twice at once. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../../shared/process/log.ts'

export interface Periodic {
  /** Lets the work under way end at its next step and begins no other. */
  stop(): Promise<void>
}

export interface PeriodicOptions {
  /** For the log. */
  readonly name: string
  readonly everyMs: number
  readonly log: Logger
  /** Begins at once, then `everyMs` after its end. Long work looks at `signal` between its steps. */
  work(signal: AbortSignal): Promise<void>
}

export function startPeriodic({ name, everyMs, log, work }: PeriodicOptions): Periodic {
  const stopping = new AbortController()
  const { signal } = stopping
  async function run(): Promise<void> {
    while (!signal.aborted) {
      await work(signal).catch((error: unknown) => log.error({ err: error }, `${name} failed`))
      await delay(everyMs, undefined, { signal }).catch(() => {})
    }
  }
  const running = run()
  return {
    stop() {
      stopping.abort()
      return running
    },
  }
}
