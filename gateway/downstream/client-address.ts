/** Finds the address of a client behind trusted proxies. */
import { isIP } from 'node:net'
import type { RequestHead } from '../http1/request-head.ts'

/**
 * Returns the address that the outermost of `trustedProxies` saw. Entries of `X-Forwarded-For` before it
 * may be forged. `own` is the address of the connection.
 */
export function clientAddress(
  own: string,
  headers: RequestHead['headers'],
  trustedProxies: number,
): string {
  if (trustedProxies === 0) return own
  const forwarded = headers.get('x-forwarded-for')?.split(',') ?? []
  const seen = [...forwarded.map((address) => address.trim()), own].at(-1 - trustedProxies)
  return seen !== undefined && isIP(seen) ? seen : own
}
