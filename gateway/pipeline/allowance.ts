/**
 * How a change of the key's limit affects a call's allowance, and which allowance is shown to the client and reported.
 */
import type { Call } from '../call/call.ts'
import type { KnownKey } from '../keys/look-up.ts'
import { type Allowance, isOverLimit, type RateLimiter } from '../rate-limit/limiter.ts'

/**
 * The caller has found that the key's limit has changed since it was applied to the call. If the call was over the
 * previous limit, the new limit is applied. Otherwise, the call was counted, and is not counted again.
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
 */
export function updateLimitOfAllowance(call: Call, { rateLimit: limit }: KnownKey): void {
  const { allowance } = call
  const wasCounted = allowance !== undefined && !isOverLimit(allowance)
  // A call that was counted is not over the limit, even if the new limit is lower than the count.
  call.allowance = wasCounted
    ? { ...allowance, limit, used: Math.min(allowance.used, limit) }
    : undefined
}

/**
 * Returns the allowance for the rate-limit headers. For a call without an allowance, returns the last allowance of its
 * key that this gateway knows. Returns undefined if the key is not known or cannot be used (401).
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
 * Returns the allowance for the usage report. A response with 401 has none: if the call was counted, the key became
 * invalid afterwards.
 */
export function allowanceToReport({ allowance }: Call, status: number): Allowance | undefined {
  return status === 401 ? undefined : allowance
}
