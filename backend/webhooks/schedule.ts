/** The times at which a failed delivery is retried, for about three days in all. */
import type { AttemptResult } from './sender.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** The delays between attempts. */
const DELAYS_MS = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
]

export const ATTEMPTS_MAX = DELAYS_MS.length + 1

/** Spreads the retries of deliveries that failed together. */
const JITTER = 0.1

/** Limits `Retry-After`. For a receiver that needs longer, the endpoint should be paused. */
const RETRY_AFTER_MS_MAX = 24 * HOUR_MS

/** How long an overloaded receiver that sends no `Retry-After` gets no requests. */
const HOLD_MS = 5 * SECOND_MS

/** The receiver is overloaded, or a proxy before it cannot reach it. */
const OVERLOADED = [429, 502, 503, 504]

/**
 * When to retry after `attempts` failed attempts; undefined if that was the last one. `random` is from 0 to
 * 1.
 */
export function nextAttemptAt(
  attempts: number,
  result: AttemptResult,
  now: Date,
  random: number,
): Date | undefined {
  const delay = DELAYS_MS[attempts - 1]
  if (delay === undefined) return undefined
  const jittered = delay * (1 - JITTER + 2 * JITTER * random)
  return new Date(now.getTime() + Math.max(jittered, retryAfterMs(result, now) ?? 0))
}

/** Until when the receiver gets no deliveries; undefined if the result requires no such pause. */
export function holdUntil(result: AttemptResult, now: Date): Date | undefined {
  if (result.statusCode === null || !OVERLOADED.includes(result.statusCode)) return undefined
  return new Date(now.getTime() + (retryAfterMs(result, now) ?? HOLD_MS))
}

/** Parses seconds or an HTTP date (RFC 9110, 10.2.3). */
function retryAfterMs({ responseHeaders }: AttemptResult, now: Date): number | undefined {
  const text = responseHeaders?.['retry-after']?.trim() ?? ''
  const ms = /^\d+$/.test(text) ? Number(text) * SECOND_MS : Date.parse(text) - now.getTime()
  // Any other text yields NaN, which is not greater than 0.
  return ms > 0 ? Math.min(ms, RETRY_AFTER_MS_MAX) : undefined
}
