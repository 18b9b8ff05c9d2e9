/** Schedules the retries of failed deliveries, which take about three days in total. */
import type { AttemptResult } from './sender.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

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

/**
 * Each delay is changed by up to this fraction at random, which spreads the retries of deliveries that failed together.
 */
const JITTER = 0.1

/** A longer `Retry-After` is shortened to this time. */
const RETRY_AFTER_MS_MAX = 24 * HOUR_MS

/** The pause after a response with a status in `OVERLOADED` that has no usable `Retry-After`. */
const HOLD_MS = 5 * SECOND_MS

/** Statuses of a receiver that is overloaded, or that a proxy in front of it cannot reach. */
const OVERLOADED = [429, 502, 503, 504]

/**
 * Returns the time of the next attempt; undefined if the failed attempt was the last. `step` is the position of the
 * failed attempt in the schedule, from 1 (see `WebhookDeliveryRow`). `random` is a number from 0 to 1.
 */
export function nextAttemptAt(
  step: number,
  result: AttemptResult,
  now: Date,
  random: number,
): Date | undefined {
  const delay = DELAYS_MS[step - 1]
  if (delay === undefined) return undefined
  const jittered = delay * (1 - JITTER + 2 * JITTER * random)
  return new Date(now.getTime() + Math.max(jittered, retryAfterMs(result, now) ?? 0))
}

/**
 * Returns the time until which only test events are sent to the receiver; undefined if the status of its response is
 * not in `OVERLOADED`.
 */
export function holdUntil(result: AttemptResult, now: Date): Date | undefined {
  if (result.statusCode === null || !OVERLOADED.includes(result.statusCode)) return undefined
  return new Date(now.getTime() + (retryAfterMs(result, now) ?? HOLD_MS))
}

/** Parses seconds or an HTTP date (RFC 9110, 10.2.3). */
function retryAfterMs({ responseHeaders }: AttemptResult, now: Date): number | undefined {
  const text = responseHeaders?.['retry-after']?.trim() ?? ''
  const ms = /^\d+$/.test(text) ? Number(text) * SECOND_MS : Date.parse(text) - now.getTime()
  // A text that is no date yields NaN, which is not greater than 0.
  return ms > 0 ? Math.min(ms, RETRY_AFTER_MS_MAX) : undefined
}
