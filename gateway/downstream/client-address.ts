/** Determines the address of a client behind trusted proxies, and the network that counts as one client. */
import { isIP } from 'node:net'
import type { RequestHead } from '../http1/request-head.ts'

/**
 * Returns the address that the first of `trustedProxies` reported in `X-Forwarded-For`; earlier entries may
 * be forged. Without trusted proxies, or if that entry is missing or invalid, it is `own`, the address of
 * the connection.
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

/**
 * Returns the network that counts as one client: an IPv4 address, or the /64 of an IPv6 address, since a
 * host can use any address of its /64. `address` is valid, or empty.
 */
export function clientNetwork(address: string): string {
  if (!address.includes(':')) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const behind = tail === undefined || tail === '' ? 0 : tail.split(':').length
  if (tail !== undefined) {
    while (groups.length + behind < 8 && groups.length < 4) groups.push('0')
    groups.push(...tail.split(':'))
  }
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}
