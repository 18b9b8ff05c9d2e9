/**
 * The headers that show clients their rate limit: `X-RateLimit-*`, `RateLimit-Policy` and `RateLimit` (an IETF draft),
 * and `Retry-After`.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { type Allowance, secondsToReset, WINDOW_MS } from './limiter.ts'

const HEADERS_WITHOUT_ALLOWANCE: readonly string[] = ['x-ratelimit-remaining', '0']

/**
 * Returns an array in which names and values alternate. Without an allowance, e.g. because the key is invalid, only
 * `X-RateLimit-Remaining: 0` is sent, because the contract requires this header in every response.
 */
export function rateLimitHeaders(allowance: Allowance | undefined): readonly string[] {
  if (allowance === undefined) return HEADERS_WITHOUT_ALLOWANCE
  const { limit, used, windowEndsAt, degraded } = allowance
  const remaining = Math.max(0, limit - used)
  return [
    'x-ratelimit-limit',
    `${limit}`,
    'x-ratelimit-remaining',
    `${remaining}`,
    'x-ratelimit-reset',
    `${Math.ceil(windowEndsAt / 1000)}`,
    'ratelimit-policy',
    `"hour";q=${limit};w=${WINDOW_MS / 1000}${degraded ? ';degraded' : ''}`,
    'ratelimit',
    `"hour";r=${remaining};t=${secondsToReset(allowance)}`,
  ]
}

/** Returns the 429 for a call beyond the limit. */
export function limitReached(allowance: Allowance): Problem {
  const seconds = secondsToReset(allowance)
  return new Problem(
    'rate_limit_exceeded',
    `Too many requests: rate limit of ${allowance.limit} requests per hour reached, try again in ${seconds} seconds.`,
    { headers: { 'retry-after': String(seconds) } },
  )
}
