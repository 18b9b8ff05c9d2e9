/** Determines the address of a client behind trusted proxies. */
import { isIP } from 'node:net'
import { withoutIpv4Mapping } from '../../shared/contract/client-network.ts'
import type { RequestHead } from '../http1/request-head.ts'

/**
 * Returns the address that the outermost trusted proxy added to `X-Forwarded-For`. Each of the `trustedProxies` proxies
 * adds one entry at the end; earlier entries may be forged. Without trusted proxies, or if the entry is missing or
 * invalid, returns `peerAddress`, the address of the connection.
 */
export function clientAddress(
  peerAddress: string,
  headers: RequestHead['headers'],
  trustedProxies: number,
): string {
  if (trustedProxies === 0) return peerAddress
  const entries = headers.get('x-forwarded-for')?.split(',') ?? []
  return addressIn(entries.at(-trustedProxies)?.trim() ?? '') ?? peerAddress
}

/** `203.0.113.7:4711`, `[2001:db8::7]:4711` or `[2001:db8::7]`, as some proxies write an address. */
const ADDRESS_AND_PORT = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/

function addressIn(entry: string): string | undefined {
  const [, ipv6, ipv4] = ADDRESS_AND_PORT.exec(entry) ?? []
  const address = ipv6 ?? ipv4 ?? entry
  return isIP(address) ? withoutIpv4Mapping(address) : undefined
}
