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
 * How many previews are kept: those that are cached, and the previous previews of keys whose preview is being computed.
 * A preview can take twenty megabytes of memory.
 */
const CACHED_MAX = 4
/** How many previews are computed at the same time. Without this limit, they would use up the memory. */
const COMPUTING_MAX = 4

export interface Preview {
  readonly messages: readonly PreviewedMessage[]
  /** The time at which the computation began. */
  readonly at: Date
}

interface Computation {
  readonly preview: Promise<Preview>
  /** Resolves after the computation has succeeded or failed. */
  readonly ended: Promise<void>
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
   * While `COMPUTING_MAX` other previews are being computed, the request waits. If none of them ends within `waitMs`,
   * no computation starts, although `isComputing` is true: the caller must repeat the request.
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

  /** `requestedAtMs` is the time of `performance.now` at which the request for this preview arrived. */
  function start(
    key: string,
    now: Date,
    requestedAtMs: number,
    compute: () => Promise<readonly PreviewedMessage[]>,
  ): Computation {
    const preview = compute().then((messages) => ({ messages, at: now }))
    const remove = () => {
      computations.delete(key)
    }
    const ended = preview.then((result) => {
      remove()
      // The time that the request waited counts: its user has waited as long as for a slow preview.
      const isSlow = performance.now() - requestedAtMs >= SLOW_MS
      if (!isSlow) return
      computation.result = result
      computation.previous = undefined
      // Adds the key at the end, because the first keys are evicted first.
      computations.set(key, computation)
      evictOldest()
    }, remove)
    const previous = computations.get(key)?.result
    const computation: Computation = { preview, ended, result: undefined, previous, startedAt: now }
    computations.set(key, computation)
    return computation
  }

  /** Evicts no running computation: it would continue to use memory, but no request would get its result. */
  function evictOldest(): void {
    const entries = [...computations]
    const kept = entries.filter(([, { result, previous }]) => (result ?? previous) !== undefined)
    const evictable = entries.filter(([, { result }]) => result !== undefined)
    const excess = Math.max(0, kept.length - CACHED_MAX)
    for (const [key] of evictable.slice(0, excess)) computations.delete(key)
  }

  function running(): readonly Computation[] {
    return [...computations.values()].filter(({ result }) => result === undefined)
  }

  function isCurrent({ result, startedAt }: Computation, now: Date): boolean {
    const isRunning = result === undefined
    return isRunning || now.getTime() - startedAt.getTime() < CACHED_MS
  }

  return {
    async get(key, now, waitMs, compute) {
      const requestedAtMs = performance.now()
      const timer = new AbortController()
      let hasTimedOut = false
      const timeout = delay(waitMs, undefined, { signal: timer.signal }).then(
        () => {
          hasTimedOut = true
        },
        () => undefined,
      )
      const findOrStart = () => {
        const known = computations.get(key)
        if (known !== undefined && isCurrent(known, now)) return known
        return running().length < COMPUTING_MAX
          ? start(key, now, requestedAtMs, compute)
          : undefined
      }
      try {
        let computation = findOrStart()
        while (computation === undefined && !hasTimedOut) {
          await Promise.race([timeout, ...running().map(({ ended }) => ended)])
          computation = findOrStart()
        }
        if (computation === undefined) {
          return { preview: computations.get(key)?.result, isComputing: true }
        }
        const current = await Promise.race([computation.preview, timeout])
        return {
          preview: current ?? computation.previous,
          isComputing: current === undefined,
        }
      } finally {
        timer.abort()
      }
    },
  }
}
