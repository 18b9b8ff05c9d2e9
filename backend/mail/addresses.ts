import { parseEmail } from '../validation/contact.ts'

export interface NamedAddress {
  readonly name: string
  readonly address: string
}

/** Parses `ap@acme.nl` or `Acme <ap@acme.nl>`; returns undefined for any other text. */
export function parseNamedAddress(text: string): NamedAddress | undefined {
  const [, name, bracketed] = /^([^<>]*)<([^<>]+)>$/s.exec(text.trim()) ?? []
  const address = parseEmail((bracketed ?? text).trim())
  if (address === undefined) return undefined
  return { name: toOneLine((name ?? '').replaceAll('"', '')), address }
}

/** Replaces line breaks and other control characters with spaces, so that the text cannot start another header. */
export function toOneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}

export function hostOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase()
}

/**
 * Masks e-mail addresses in a mail server's reply, which often repeats them, before the log or the health endpoint
 * shows the reply.
 */
export function maskAddresses(text: string): string {
  return text.replace(/<?[^\s<>]+@[^\s<>]+>?/g, '<address>')
}

/**
 * Domains that are reserved for documentation and tests (RFC 2606, RFC 6761). They have no mailboxes, so an
 * address there is sample data, and no mail is sent to it.
 */
const RESERVED_HOST = /^(?:.*\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost)$/

export function isReservedAddress(address: string): boolean {
  return RESERVED_HOST.test(hostOf(address))
}
