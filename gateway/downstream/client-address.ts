/** Determines the address of a client behind trusted proxies. */
import { isIP } from 'node:net'
import type { RequestHead } from '../http1/request-head.ts'

/**
 * Returns the address that the outermost trusted proxy added to `X-Forwarded-For`; earlier entries may be
 * forged. Without trusted proxies, or if that entry is missing or invalid, returns `peerAddress`, the address
 * of the connection.
 */
export function clientAddress(
  peerAddress: string,
  headers: RequestHead['headers'],
  trustedProxies: number,
): string {
  if (trustedProxies === 0) return peerAddress
  const forwarded = headers.get('x-forwarded-for')?.split(',') ?? []
  const entry = [...forwarded.map((address) => address.trim()), peerAddress].at(-1 - trustedProxies)
  return entry !== undefined && isIP(entry) ? entry : peerAddress
}
