/**
 * Unless private targets are allowed, webhooks are sent only to global unicast addresses. For IPv4, the special ranges
 * of IANA's registry are rejected. For IPv6, only 2000::/3 is allowed, so that most forms of embedded IPv4 addresses
 * (mapped, compatible, NAT64) are rejected without being listed; 6to4 and Teredo are listed.
 */
import { readAddressPrefixes } from '../../shared/contract/address-prefixes.ts'

const ANY_IPV4 = readAddressPrefixes(['0.0.0.0/0'])

const SPECIAL_IPV4 = readAddressPrefixes([
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
  // Multicast, reserved and broadcast addresses.
  '224.0.0.0/3',
])

const GLOBAL_IPV6 = readAddressPrefixes(['2000::/3'])

/** The special ranges within 2000::/3. */
const SPECIAL_IPV6 = readAddressPrefixes([
  // Protocol assignments, including Teredo (2001::/32) and benchmarking.
  '2001::/23',
  '2001:db8::/32',
  // 6to4: each address contains an IPv4 address, which may be private.
  '2002::/16',
  '2620:4f:8000::/48',
  '3fff::/20',
])

const LOOPBACK = readAddressPrefixes(['127.0.0.0/8', '::1/128'])

/**
 * Whether a text is a global unicast address in the form in which resolvers return addresses. Returns false for
 * any other text.
 */
export function isGlobalUnicast(address: string): boolean {
  if (!address.includes(':')) return ANY_IPV4.contain(address) && !SPECIAL_IPV4.contain(address)
  // Only link-local addresses have a zone, as in `fe80::1%eth0`.
  if (address.includes('%')) return false
  return GLOBAL_IPV6.contain(address) && !SPECIAL_IPV6.contain(address)
}

export function isLoopbackAddress(address: string): boolean {
  return LOOPBACK.contain(address)
}
