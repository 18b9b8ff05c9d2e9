/**
 * Computes each preview of reminders once for concurrent requests. For an account with thousands of customers, the
 * computation takes seconds. A slow preview is therefore cached for a while, and shown with the time at which its
 * computation began. A request that would wait too long receives a page with a link that reloads the page; a JSON
 * request receives 503.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { PreviewedMessage } from '../../reminders/preview.ts'

/** The longest wait of a page request; the timeout of gateways is ten seconds. */
const WAIT_MS = 5000
/** Previews that took longer are cached. */
const SLOW_MS = 1000
const CACHED_MS = 120_000
/** How many previews are cached or shared while they are computed. Each can take twenty megabytes of memory. */
const CACHED_MAX = 4

export interface Preview {
  readonly messages: readonly PreviewedMessage[]
  /** The time at which the computation began. */
  readonly at: Date
}

interface Computation {
  readonly preview: Promise<Preview>
  /** Undefined while the computation runs. */
  tookMs: number | undefined
  readonly startedAt: Date
}

export interface Previews {
  /**
   * Resolves with undefined if the preview is not computed within `waitMs`. Requests with the same `key` get the same
   * preview.
   */
  get(
    key: string,
    now: Date,
    compute: () => Promise<readonly PreviewedMessage[]>,
  ): Promise<Preview | undefined>
}

export function createPreviews(waitMs = WAIT_MS): Previews {
  const computations = new Map<string, Computation>()

  function start(
    key: string,
    now: Date,
    compute: () => Promise<readonly PreviewedMessage[]>,
  ): Computation {
    const startedAtMs = performance.now()
    const preview = compute().then((messages) => ({ messages, at: now }))
    const computation: Computation = { preview, tookMs: undefined, startedAt: now }
    // Moves the key to the end, because the loop removes the first keys.
    computations.delete(key)
    computations.set(key, computation)
    for (const oldest of computations.keys()) {
      if (computations.size <= CACHED_MAX) break
      computations.delete(oldest)
    }
    preview.then(
      () => {
        computation.tookMs = performance.now() - startedAtMs
        const isSlow = computation.tookMs >= SLOW_MS
        if (!isSlow && computations.get(key) === computation) computations.delete(key)
      },
      () => computations.delete(key),
    )
    return computation
  }

  function isFresh({ tookMs, startedAt }: Computation, now: Date): boolean {
    return tookMs === undefined || now.getTime() - startedAt.getTime() < CACHED_MS
  }

  return {
    async get(key, now, compute) {
      const known = computations.get(key)
      const { preview } =
        known !== undefined && isFresh(known, now) ? known : start(key, now, compute)
      const timer = new AbortController()
      const timeout = delay(waitMs, undefined, { signal: timer.signal })
      try {
        return await Promise.race([preview, timeout.catch(() => undefined)])
      } finally {
        timer.abort()
      }
    },
  }
}
