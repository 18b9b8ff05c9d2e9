/**
 * The hourly rate limit of each key: a fixed window that opens with the key's first call after its previous window, and
 * admits `limit` calls. A rate limiter is *degraded* while its shared store is unavailable.
 */

export const WINDOW_MS = 3_600_000

/** The state of a key's window after one call. */
export interface Allowance {
  readonly limit: number
  /** The number of this call in its window, from 1. If it is greater than `limit`, the call is not counted. */
  readonly used: number
  /** Milliseconds since the epoch, by the clock of the store; without a store, by the clock of this machine. */
  readonly windowEndsAt: number
  /** The time until the window ends: the difference between two times of the same clock. */
  readonly windowEndsInMs: number
  /** Whether the store is unavailable, so that `used` may lack calls of other processes. False if there is no store. */
  readonly degraded: boolean
}

/** The current window of a key, as far as this process knows. */
export interface KeyWindow {
  readonly keyId: string
  readonly used: number
  readonly limit: number
  /** See `Allowance.windowEndsAt`. */
  readonly endsAt: number
}

/** `starting`: the shared store has not been reached yet. */
export type RateLimiterState = 'exact' | 'starting' | 'degraded'

export interface RateLimiter {
  /**
   * Counts one call of the key, unless the limit is reached (check the result with `isOverLimit`). Rejects with
   * `Problem` 503 if the store is unavailable and `RATE_LIMIT_ON_REDIS_OUTAGE` is `deny`.
   */
  consume(keyId: string, limit: number): Promise<Allowance>
  /**
   * Returns the allowance as far as this process knows it, without counting a call. `used` is the number of the last
   * counted call.
   */
  peek(keyId: string, limit: number): Allowance
  /** Returns at most `max` windows that have changed since this method last returned them. */
  takeChanged(max: number): readonly KeyWindow[]
  state(): RateLimiterState
  /** Returns why the store is unavailable, in words for operators; undefined if the state is `exact`. */
  outage(): string | undefined
  readonly counts: RateLimiterCounts
  close(): Promise<void>
}

/** Counts since the start, for metrics. */
export interface RateLimiterCounts {
  /** How often the shared store, or a part of it (one master of a Redis Cluster), became unavailable. */
  readonly outages: number
  /** The number of calls that this process counted by itself during outages. */
  readonly callsCountedLocally: number
  /** The number of unusable counters in the shared store that were replaced. */
  readonly countersReplaced: number
}

export function isOverLimit(allowance: Allowance): boolean {
  return allowance.used > allowance.limit
}

/** Returns the whole seconds until the window ends, at least 1. */
export function secondsToReset(allowance: Allowance): number {
  return Math.max(1, Math.ceil(allowance.windowEndsInMs / 1000))
}
