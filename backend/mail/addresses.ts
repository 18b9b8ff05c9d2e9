/** Addresses in headers, and those that nobody can have. */
import { parseEmail } from '../validation/contact.ts'

export interface NamedAddress {
  readonly name: string
  readonly address: string
}

/** `ap@acme.nl` or `Acme <ap@acme.nl>`; undefined where it is neither. */
export function parseNamedAddress(text: string): NamedAddress | undefined {
  const [, name, bracketed] = /^([^<>]*)<([^<>]+)>$/s.exec(text.trim()) ?? []
  const address = parseEmail((bracketed ?? text).trim())
  if (address === undefined) return undefined
  return { name: headerText((name ?? '').replaceAll('"', '')), address }
}

/** One line: what could end a header early is a space in it. */
export function headerText(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}

export function hostOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase()
}

/** For logs: servers like to name whom a reply is about. */
export function withoutAddresses(text: string): string {
  return text.replace(/<?[^\s<>]+@[^\s<>]+>?/g, '<address>')
}

/**
 * Of documentation and tests (RFC 2606, RFC 6761): nobody is there, and mail that is sent there all
 * the same tells of sample data on its way out.
 */
const RESERVED_HOST = /^(?:.*\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost)$/

export function isReservedAddress(address: string): boolean {
  return RESERVED_HOST.test(hostOf(address))
}
