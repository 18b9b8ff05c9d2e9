import ipaddr from 'ipaddr.js'

/**
 * Returns the network that counts as one client: an IPv4 address, or the /64 of an IPv6 address, because a host can use
 * any address of its /64. An IPv4-mapped IPv6 address counts as the IPv4 address. Text that is not an IPv6 address is
 * returned unchanged.
 */
export function clientNetwork(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16))
  return `${network.join(':')}::/64`
}

/**
 * Returns the IPv4 address that an IPv4-mapped IPv6 address, such as `::ffff:203.0.113.7`, stands for. Other text is
 * returned unchanged. If a server listens on `::`, the addresses of its IPv4 clients are mapped.
 */
export function withoutIpv4Mapping(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : address
}
