/** When a delivery that failed is tried again (contract 1.14): about three days in all. */
import type { AttemptResult } from './sender.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** Between one attempt and the next. */
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

/** So that what failed together does not come back together. */
const JITTER = 0.1

/** A receiver may put us off for so long; who wants more should pause the endpoint. */
const RETRY_AFTER_MS_MAX = 24 * HOUR_MS

/** What an overloaded receiver that names no time is spared for. */
const HOLD_MS = 5 * SECOND_MS

/** The receiver is there and asks for patience, or something before it cannot reach it. */
const OVERLOADED = [429, 502, 503, 504]

/** After `attempts` failed ones; undefined: that was the last. `random` is from 0 to 1. */
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

/** Until when the receiver gets nothing at all; undefined where nothing speaks for that. */
export function holdUntil(result: AttemptResult, now: Date): Date | undefined {
  if (result.statusCode === null || !OVERLOADED.includes(result.statusCode)) return undefined
  return new Date(now.getTime() + (retryAfterMs(result, now) ?? HOLD_MS))
}

/** Seconds or an HTTP date (RFC 9110, 10.2.3). */
function retryAfterMs({ responseHeaders }: AttemptResult, now: Date): number | undefined {
  const text = responseHeaders?.['retry-after']?.trim() ?? ''
  const ms = /^\d+$/.test(text) ? Number(text) * SECOND_MS : Date.parse(text) - now.getTime()
  // Text that is neither is not a number.
  return ms > 0 ? Math.min(ms, RETRY_AFTER_MS_MAX) : undefined
}
