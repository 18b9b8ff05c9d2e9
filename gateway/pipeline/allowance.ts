/**
 * The rate-limit allowance of a call: how a change of the key's limit affects it, and which allowance the response and
 * the usage report show.
 */
import type { Call } from '../call/call.ts'
import type { KnownKey } from '../keys/look-up.ts'
import { type Allowance, isOverLimit, type RateLimiter } from '../rate-limit/limiter.ts'

/**
 * Applies the new limit of the key to a call to which the old limit has already been applied. If the key had reached
 * the old limit, the call was not counted, and is now counted against the new limit. A call that was counted is not
 * counted again.
 */
export async function applyLimit(
  rateLimiter: RateLimiter,
  call: Call,
  key: KnownKey,
): Promise<void> {
  updateLimitOfAllowance(call, key)
  call.allowance ??= await rateLimiter.consume(key.keyId, key.rateLimit)
}

/**
 * Updates the limit in the allowance of a call that was counted. If the call was not counted, removes its allowance.
 * Counts nothing.
 */
export function updateLimitOfAllowance(call: Call, { rateLimit: limit }: KnownKey): void {
  const { allowance } = call
  const wasCounted = allowance !== undefined && !isOverLimit(allowance)
  // A call that was counted is not over the limit, even if the new limit is lower than the count: it is then shown as
  // the last call that the new limit admits.
  call.allowance = wasCounted
    ? { ...allowance, limit, used: Math.min(allowance.used, limit) }
    : undefined
}

/**
 * Returns the allowance for the rate-limit headers. For a call without an allowance, e.g. because it never reached the
 * rate limiter, returns the last allowance of its key that this gateway knows. Returns undefined if the key is not
 * known or cannot be used (401).
 */
export function allowanceToShow(
  rateLimiter: RateLimiter,
  call: Call,
  status: number,
): Allowance | undefined {
  const { allowance, keyForLimitHeaders } = call
  if (status === 401) return undefined
  return (
    allowance ??
    (keyForLimitHeaders && rateLimiter.peek(keyForLimitHeaders.keyId, keyForLimitHeaders.rateLimit))
  )
}

/**
 * Returns the allowance for the usage report, even if the call is over the limit. Returns undefined if the
 * call never reached the rate limiter, or if its key cannot be used (401).
 */
export function allowanceToReport({ allowance }: Call, status: number): Allowance | undefined {
  return status === 401 ? undefined : allowance
}
