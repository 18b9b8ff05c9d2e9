/**
 * The rate-limit headers: `X-RateLimit-*` and those of the IETF draft. `pipeline/decide.ts` adds
 * `Retry-After` to a 429.
 */
import { type Allowance, secondsToReset, WINDOW_MS } from './limiter.ts'

const NOT_AUTHENTICATED: readonly string[] = ['x-ratelimit-remaining', '0']

/**
 * Renders the headers; names and values alternate. Without an authenticated key there is no allowance, and
 * the number of remaining calls is 0.
 */
export function rateLimitHeaders(allowance: Allowance | undefined): readonly string[] {
  if (allowance === undefined) return NOT_AUTHENTICATED
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
