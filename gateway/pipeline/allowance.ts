/** The allowance of a call: what its response shows of it, and what a limit that changed meanwhile does to it. */
import type { Call } from '../call/call.ts'
import type { KnownKey } from '../keys/look-up.ts'
import { type Allowance, isOverLimit, type RateLimiter } from '../rate-limit/limiter.ts'

/**
 * A changed limit applies from the next call on, also to a key that has just reached the old one: that call was not
 * counted. A call that was counted is not counted again.
 */
export async function applyLimit(
  rateLimiter: RateLimiter,
  call: Call,
  key: KnownKey,
): Promise<void> {
  keepCount(call, key)
  call.allowance ??= await rateLimiter.consume(key.keyId, key.rateLimit)
}

/** Applies the limit of the key to a call that was counted. The allowance of one that was not is removed. */
export function keepCount(call: Call, { rateLimit }: KnownKey): void {
  const { allowance } = call
  const wasCounted = allowance !== undefined && !isOverLimit(allowance)
  call.allowance = wasCounted ? { ...allowance, limit: rateLimit } : undefined
}

/**
 * For the headers. Before a call is counted, it is the allowance that this gateway knew last. A key that turned out to
 * be unusable while the call was in progress has none.
 */
export function allowanceToShow(
  rateLimiter: RateLimiter,
  call: Call,
  status: number,
): Allowance | undefined {
  const { allowance, rateLimited } = call
  if (status === 401) return undefined
  return allowance ?? (rateLimited && rateLimiter.peek(rateLimited.keyId, rateLimited.rateLimit))
}

/** Undefined if the call was not counted, or if its key turned out to be unusable. */
export function countedAllowance({ allowance }: Call, status: number): Allowance | undefined {
  return status === 401 ? undefined : allowance
}
