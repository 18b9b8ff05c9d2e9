/** Strictly parses the field lines (RFC 9112, section 5) of requests, responses and trailers. */
import { malformed } from './errors.ts'

/** RFC 9110, section 5.6.2. */
const TOKEN_CHARACTER = /[!#$%&'*+.^_`|~0-9A-Za-z-]/
/** RFC 9110, section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const IN_NAME = bytesThatMatch(TOKEN_CHARACTER)
const IN_VALUE = bytesThatMatch(FIELD_VALUE)
const CR = 13
const LF = 10
const SPACE = 32
const TAB = 9
const COLON = 58
/** The bit that distinguishes a lower-case letter from its upper-case form. */
const LOWER_CASE = 32

/**
 * Parses the lines of `text` from the offset `from` on. Returns a list in which names, in lower case, and values
 * alternate. `text` is the beginning of `bytes`, decoded as Latin-1. The CRLF of the last line is not in `text`, but
 * follows in `bytes`. Throws `Http1Error`.
 */
export function parseFields(bytes: Uint8Array, text: string, from: number): string[] {
  const fields: string[] = []
  for (let offset = from; offset < text.length; ) {
    const colon = endOf(IN_NAME, bytes, offset)
    const end = endOf(IN_VALUE, bytes, colon + 1)
    const isLine = bytes[end] === CR && bytes[end + 1] === LF
    if (colon === offset || bytes[colon] !== COLON || !isLine) throw malformed()
    const name = readName(bytes, text, offset, colon)
    // Some HTTP servers and proxies do not trim tabs from a value. They would not recognize `chunked` after a tab, and
    // would parse the body as the next request.
    const isTransferEncoding = name === 'transfer-encoding'
    if (isTransferEncoding && text.slice(colon, end).includes('\t')) throw malformed()
    fields.push(name, readValue(bytes, text, colon + 1, end))
    offset = end + 2
  }
  return fields
}

export function isFieldValue(text: string): boolean {
  return FIELD_VALUE.test(text)
}

/**
 * The most frequent names, by fingerprint. A name from this table is always the same string object, which a `Map` finds
 * quickly; a new string would have to be hashed and compared.
 */
const COMMON_NAMES = Map.groupBy(
  [
    ...['accept', 'accept-encoding', 'accept-language', 'authorization', 'cache-control'],
    ...['connection', 'content-encoding', 'content-length', 'content-type', 'cookie', 'date'],
    ...['etag', 'expect', 'forwarded', 'host', 'idempotency-key', 'keep-alive', 'server'],
    ...['traceparent', 'tracestate', 'transfer-encoding', 'user-agent', 'vary', 'via'],
    ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'x-request-id'],
  ],
  (name) => fingerprintOf(Buffer.from(name), 0, name.length),
)

function readName(bytes: Uint8Array, text: string, from: number, to: number): string {
  const candidates = COMMON_NAMES.get(fingerprintOf(bytes, from, to))
  const common = candidates?.find((name) => isName(name, bytes, from, to))
  return common ?? text.slice(from, to).toLowerCase()
}

/** Returns a number that contains the length, the first byte and the last byte of the name in lower case. */
function fingerprintOf(bytes: Uint8Array, from: number, to: number): number {
  const first = (bytes[from] ?? 0) | LOWER_CASE
  const last = (bytes[to - 1] ?? 0) | LOWER_CASE
  return ((to - from) << 16) | (first << 8) | last
}

/**
 * Whether the bytes spell `name`, in upper or lower case. `name` consists of lower-case letters and hyphens. Setting
 * the bit `LOWER_CASE` turns upper-case letters into lower-case ones, and no other valid byte of a name into a letter
 * or hyphen.
 */
function isName(name: string, bytes: Uint8Array, from: number, to: number): boolean {
  for (let offset = from; offset < to; offset++) {
    if (((bytes[offset] ?? 0) | LOWER_CASE) !== name.charCodeAt(offset - from)) return false
  }
  return name.length === to - from
}

function readValue(bytes: Uint8Array, text: string, begin: number, end: number): string {
  let from = begin
  let to = end
  while (isBlank(bytes[from])) from++
  while (to > from && isBlank(bytes[to - 1])) to--
  return text.slice(from, to)
}

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB
}

/** Returns the offset of the first byte, from `from` on, whose entry in `table` is not 1. */
function endOf(table: Uint8Array, bytes: Uint8Array, from: number): number {
  let offset = from
  while (table[bytes[offset] ?? 0] === 1) offset++
  return offset
}

function bytesThatMatch(pattern: RegExp): Uint8Array {
  const matches = (byte: number) => pattern.test(String.fromCharCode(byte))
  return Uint8Array.from({ length: 256 }, (_, byte) => (matches(byte) ? 1 : 0))
}

/** Returns the value of the first field with this name. In `fields`, names in lower case and values alternate. */
export function fieldValue(fields: readonly string[], name: string): string | undefined {
  for (let index = 0; index < fields.length; index += 2)
    if (fields[index] === name) return fields[index + 1]
  return undefined
}
