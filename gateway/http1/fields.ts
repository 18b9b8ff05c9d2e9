/** Header fields, read the one strict way (RFC 9112, section 5): of requests, answers and trailers. */
import { Problem } from '../../shared/contract/problem.ts'

/** RFC 9110, section 5.6.2. */
const TOKEN = /[!#$%&'*+.^_`|~0-9A-Za-z-]/
/** RFC 9110, section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const IN_NAME = bytesThatMatch(TOKEN)
const IN_VALUE = bytesThatMatch(FIELD_VALUE)
const CR = 13
const LF = 10
const SPACE = 32
const TAB = 9
const COLON = 58
/** What a letter in upper case lacks of the one in lower case. */
const LOWER_CASE = 32

/**
 * Names in lower case and values, in turn, of the lines from `from` to the end of `text`, behind which
 * stands a line end. `text`: how `bytes` begin, in Latin-1. Throws `Problem` 400.
 */
export function parseFields(bytes: Uint8Array, text: string, from: number): string[] {
  const fields: string[] = []
  for (let at = from; at < text.length; ) {
    const colon = endOf(IN_NAME, bytes, at)
    const end = endOf(IN_VALUE, bytes, colon + 1)
    const isLine = bytes[end] === CR && bytes[end + 1] === LF
    if (colon === at || bytes[colon] !== COLON || !isLine) throw malformed()
    const name = readName(bytes, text, at, colon)
    // Not every hop takes a tab for a space here, and one that does not takes the body for a request.
    const isCoding = name === 'transfer-encoding'
    if (isCoding && text.slice(colon, end).includes('\t')) throw malformed()
    fields.push(name, readValue(bytes, text, colon + 1, end))
    at = end + 2
  }
  return fields
}

/** Whether it can stand in a field as it is. */
export function isFieldValue(text: string): boolean {
  return FIELD_VALUE.test(text)
}

export function malformed(): Problem {
  return new Problem('bad_request', 'This is not well-formed HTTP/1.1.')
}

/**
 * What heads are mostly made of, by length, first and last byte. Found here a name is the same string
 * each time, which maps find at once; one cut out of a head they look up letter by letter.
 */
const COMMON_NAMES = Map.groupBy(
  [
    ...['accept', 'accept-encoding', 'accept-language', 'authorization', 'cache-control'],
    ...['connection', 'content-encoding', 'content-length', 'content-type', 'cookie', 'date'],
    ...['etag', 'expect', 'forwarded', 'host', 'idempotency-key', 'keep-alive', 'server'],
    ...['traceparent', 'tracestate', 'transfer-encoding', 'user-agent', 'vary', 'via'],
    ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'x-request-id'],
  ],
  (name) => signOf(Buffer.from(name), 0, name.length),
)

function readName(bytes: Uint8Array, text: string, from: number, to: number): string {
  const alike = COMMON_NAMES.get(signOf(bytes, from, to))
  const common = alike?.find((name) => isName(name, bytes, from, to))
  return common ?? text.slice(from, to).toLowerCase()
}

function signOf(bytes: Uint8Array, from: number, to: number): number {
  const first = (bytes[from] ?? 0) | LOWER_CASE
  const last = (bytes[to - 1] ?? 0) | LOWER_CASE
  return ((to - from) << 16) | (first << 8) | last
}

/** `name`: of letters in lower case and hyphens, which no other byte of a name becomes. */
function isName(name: string, bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    if (((bytes[at] ?? 0) | LOWER_CASE) !== name.charCodeAt(at - from)) return false
  }
  return name.length === to - from
}

/** Without the blanks around it. */
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

/** Where the bytes of a kind end that begin at `from`. */
function endOf(kind: Uint8Array, bytes: Uint8Array, from: number): number {
  let at = from
  while (kind[bytes[at] ?? 0] === 1) at++
  return at
}

function bytesThatMatch(pattern: RegExp): Uint8Array {
  const matches = (byte: number) => pattern.test(String.fromCharCode(byte))
  return Uint8Array.from({ length: 256 }, (_, byte) => (matches(byte) ? 1 : 0))
}
