/**
 * Which addresses a webhook may be sent to: global unicast and nothing else. IPv6 names what is
 * allowed, so that every way to wrap an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) is
 * out without being listed; IPv4 is all but the special ranges of IANA's registry.
 */
import { BlockList, isIPv4, isIPv6 } from 'node:net'

const SPECIAL_IPV4 = blockList('ipv4', [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  // Multicast, reserved, broadcast.
  '224.0.0.0/3',
])

const GLOBAL_IPV6 = blockList('ipv6', ['2000::/3'])

/** Within 2000::/3. */
const SPECIAL_IPV6 = blockList('ipv6', [
  // Protocol assignments, Teredo (2001::/32) and benchmarking among them.
  '2001::/23',
  '2001:db8::/32',
  // 6to4: an IPv4 address, whichever.
  '2002::/16',
  '2620:4f:8000::/48',
  '3fff::/20',
])

const LOOPBACK_IPV4 = blockList('ipv4', ['127.0.0.0/8'])

/** Of a canonical address, as the resolver gives it; text that is none is not one. */
export function isGlobalUnicast(address: string): boolean {
  if (isIPv4(address)) return !SPECIAL_IPV4.check(address, 'ipv4')
  // A zone makes it an address of one link.
  if (!isIPv6(address) || address.includes('%')) return false
  return GLOBAL_IPV6.check(address, 'ipv6') && !SPECIAL_IPV6.check(address, 'ipv6')
}

export function isLoopbackAddress(address: string): boolean {
  return isIPv4(address) ? LOOPBACK_IPV4.check(address, 'ipv4') : address === '::1'
}

function blockList(family: 'ipv4' | 'ipv6', networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    list.addSubnet(address, Number(prefix), family)
  }
  return list
}
