/** Determines the address of a client behind trusted proxies, and the network that counts as one client. */
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

/**
 * Returns the network that counts as one client: an IPv4 address, or the /64 of an IPv6 address, since a
 * host can use any address of its /64. `address` is a valid address or empty.
 */
export function clientNetwork(address: string): string {
  if (!address.includes(':')) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const tailLength = tail === undefined || tail === '' ? 0 : tail.split(':').length
  if (tail !== undefined) {
    while (groups.length + tailLength < 8 && groups.length < 4) groups.push('0')
    groups.push(...tail.split(':'))
  }
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}
