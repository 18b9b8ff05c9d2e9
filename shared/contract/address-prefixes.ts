/**
 * Allow-lists of client addresses: IPv4 and IPv6 prefixes in CIDR notation. An IPv4-mapped IPv6 address counts as the
 * IPv4 address. A prefix of one family, even `::/0`, never contains an address of the other.
 */
import ipaddr from 'ipaddr.js'

/** The maximum number of prefixes of one key. */
export const ADDRESS_PREFIXES_MAX = 50

/** Both arrays have 32-bit words, the most significant first: one word for IPv4, four for IPv6. */
interface Prefix {
  readonly network: readonly number[]
  readonly mask: readonly number[]
}

export interface AddressPrefixes {
  /** Returns false for text that is not an address. */
  contain(address: string): boolean
}

/** The canonical text of a prefix, or a sentence that says what is wrong with the given text. */
export type ParsedPrefix = { readonly prefix: string } | { readonly fault: string }

/**
 * Parses a prefix or an address; `203.0.113.7` becomes `203.0.113.7/32`. A prefix with host bits, such as
 * `203.0.113.7/24`, is ambiguous and therefore a fault.
 */
export function parsePrefix(text: string): ParsedPrefix {
  const [address = '', length, ...rest] = text.trim().split('/')
  const words = rest.length > 0 ? undefined : wordsOf(address)
  if (words === undefined) return { fault: `${text.trim()} is not an IPv4 or IPv6 address.` }
  const bits = words.length * 32
  // `::ffff:203.0.113.0/120` is 203.0.113.0/24.
  const offset = isMapped(address) ? 96 : 0
  const givenLength = length === undefined ? bits + offset : lengthOf(length)
  if (!(givenLength >= offset && givenLength <= offset + bits)) {
    return {
      fault: `${text.trim()} needs a length from ${offset} to ${bits + offset} after the slash.`,
    }
  }
  const mask = maskOf(givenLength - offset, words.length)
  const network = words.map((word, index) => (word & (mask[index] ?? 0)) >>> 0)
  const canonical = `${textOf(network)}/${givenLength - offset}`
  if (network.some((word, index) => word !== words[index])) {
    return {
      fault: `${text.trim()} is ambiguous: enter ${canonical} for the network, or ${textOf(words)} for one address.`,
    }
  }
  return { prefix: canonical }
}

/** Reads prefixes that `parsePrefix` returned. Throws `TypeError` for text that is not a prefix. */
export function readAddressPrefixes(prefixes: readonly string[]): AddressPrefixes {
  const parsed = prefixes.map(readPrefix)
  return {
    contain(address) {
      const words = wordsOf(address, { allowsZone: true })
      return words !== undefined && parsed.some((prefix) => contains(prefix, words))
    },
  }
}

function readPrefix(text: string): Prefix {
  const [address = '', length = ''] = text.split('/')
  const network = wordsOf(address)
  if (network === undefined || !(lengthOf(length) <= network.length * 32)) {
    throw new TypeError(`${text} is not an address prefix`)
  }
  return { network, mask: maskOf(lengthOf(length), network.length) }
}

function contains({ network, mask }: Prefix, words: readonly number[]): boolean {
  if (network.length !== words.length) return false
  for (let index = 0; index < words.length; index++) {
    if (((words[index] ?? 0) & (mask[index] ?? 0)) >>> 0 !== network[index]) return false
  }
  return true
}

/**
 * Returns the 32-bit words of an address: one for IPv4 and for an IPv4-mapped IPv6 address, otherwise four. Returns
 * undefined for any other text, and for unusual forms of addresses such as `010.0.0.1` and `10.1`. With `allowsZone`,
 * an IPv6 address may have a zone, such as `fe80::1%eth0`.
 */
function wordsOf(text: string, { allowsZone = false } = {}): readonly number[] | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return [toWord(ipaddr.IPv4.parse(text).octets, 8)]
  if (!ipaddr.IPv6.isValid(text) || (!allowsZone && text.includes('%'))) return undefined
  const address = ipaddr.IPv6.parse(text)
  if (address.isIPv4MappedAddress()) return [toWord(address.toIPv4Address().octets, 8)]
  const { parts } = address
  return [0, 2, 4, 6].map((index) => toWord(parts.slice(index, index + 2), 16))
}

function isMapped(address: string): boolean {
  return address.includes(':') && ipaddr.IPv6.parse(address).isIPv4MappedAddress()
}

function toWord(parts: readonly number[], bitsOfPart: number): number {
  return parts.reduce((word, part) => word * 2 ** bitsOfPart + part, 0)
}

/**
 * Returns NaN for text that is not a length. Every comparison with NaN is false, so callers write `!(length <= max)`
 * instead of `length > max`, which would accept NaN.
 */
function lengthOf(text: string): number {
  return /^\d{1,3}$/.test(text) ? Number(text) : Number.NaN
}

function maskOf(length: number, wordCount: number): readonly number[] {
  return Array.from({ length: wordCount }, (_, index) => {
    const bits = Math.min(Math.max(length - index * 32, 0), 32)
    return bits === 0 ? 0 : (0xffffffff << (32 - bits)) >>> 0
  })
}

function textOf(words: readonly number[]): string {
  if (words.length === 1) {
    const [word = 0] = words
    return [24, 16, 8, 0].map((shift) => (word >>> shift) & 0xff).join('.')
  }
  const parts = words.flatMap((word) => [word >>> 16, word & 0xffff])
  return new ipaddr.IPv6(parts).toRFC5952String()
}
