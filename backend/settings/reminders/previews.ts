/**
 * Computes each preview of reminders once for concurrent requests. For an account with thousands of customers, the
 * computation takes seconds. A slow preview is therefore cached for a while, and shown with the time at which its
 * computation began.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { PreviewedMessage } from '../../reminders/preview.ts'

/** Previews that took longer are cached. */
export const SLOW_MS = 1000
const CACHED_MS = 120_000
/**
 * For how many keys a computation is kept, in progress or cached. While it is in progress, the previous preview of the
 * key is kept, too. A preview can take twenty megabytes of memory.
 */
const CACHED_MAX = 4

export interface Preview {
  readonly messages: readonly PreviewedMessage[]
  /** The time at which the computation began. */
  readonly at: Date
}

interface Computation {
  readonly preview: Promise<Preview>
  /** Undefined while the computation runs. */
  result: Preview | undefined
  /** The result of the previous computation with the same key; undefined as soon as this computation has a result. */
  previous: Preview | undefined
  readonly startedAt: Date
}

export interface Previews {
  /**
   * Resolves with the current preview or, if it is not computed within `waitMs`, with the previous preview, which is
   * outdated. `preview` is undefined if neither exists. Concurrent requests with the same `key` share one computation.
   */
  get(
    key: string,
    now: Date,
    waitMs: number,
    compute: () => Promise<readonly PreviewedMessage[]>,
  ): Promise<{ readonly preview: Preview | undefined; readonly isComputing: boolean }>
}

export function createPreviews(): Previews {
  const computations = new Map<string, Computation>()

  function start(
    key: string,
    now: Date,
    compute: () => Promise<readonly PreviewedMessage[]>,
  ): Computation {
    const startedAtMs = performance.now()
    const preview = compute().then((messages) => ({ messages, at: now }))
    const last = computations.get(key)
    const previous = last?.result ?? last?.previous
    const computation: Computation = { preview, result: undefined, previous, startedAt: now }
    // Moves the key to the end, because the loop below removes the first keys.
    computations.delete(key)
    computations.set(key, computation)
    const remove = () => {
      if (computations.get(key) === computation) computations.delete(key)
    }
    for (const oldest of computations.keys()) {
      if (computations.size <= CACHED_MAX) break
      computations.delete(oldest)
    }
    preview.then((result) => {
      computation.result = result
      computation.previous = undefined
      const isSlow = performance.now() - startedAtMs >= SLOW_MS
      if (!isSlow) remove()
    }, remove)
    return computation
  }

  function isCurrent({ result, startedAt }: Computation, now: Date): boolean {
    const isRunning = result === undefined
    return isRunning || now.getTime() - startedAt.getTime() < CACHED_MS
  }

  return {
    async get(key, now, waitMs, compute) {
      const known = computations.get(key)
      const computation =
        known !== undefined && isCurrent(known, now) ? known : start(key, now, compute)
      const timer = new AbortController()
      const timeout = delay(waitMs, undefined, { signal: timer.signal })
      try {
        const current = await Promise.race([computation.preview, timeout.catch(() => undefined)])
        return { preview: current ?? computation.previous, isComputing: current === undefined }
      } finally {
        timer.abort()
      }
    },
  }
}
