/** Whose address a call comes from, over the proxies in front that are believed. */
import { isIP } from 'node:net'
import type { Head } from '../http1/request-head.ts'

/**
 * The address that the outermost of `trustedProxies` saw; what stands before it in `X-Forwarded-For` a
 * client may have made up. `own`: of the connection.
 */
export function clientAddress(
  own: string,
  headers: Head['headers'],
  trustedProxies: number,
): string {
  if (trustedProxies === 0) return own
  const forwarded = headers.get('x-forwarded-for')?.split(',') ?? []
  const seen = [...forwarded.map((address) => address.trim()), own].at(-1 - trustedProxies)
  return seen !== undefined && isIP(seen) ? seen : own
}
