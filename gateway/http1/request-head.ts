/**
 * Validates request heads. A head that another server could interpret differently is rejected before anything is
 * counted or sent. After an error, the caller closes the connection and parses no further bytes.
 */
import { isIPv6 } from 'node:net'
import type { BodyFraming } from './body-decoder.ts'
import { Http1Error, headersTooLarge, malformed, targetTooLong } from './errors.ts'
import { HEADER_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX } from './limits.ts'
import type { RawRequestHead } from './request-reader.ts'

/**
 * PATCH and DELETE, which no path accepts, are valid here, so that the router rejects them and the connection stays
 * open. An unknown method closes the connection.
 */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'PATCH', 'DELETE'])
const METHODS_WITH_BODY = new Set(['POST', 'PUT', 'PATCH'])
/** A whole number of at most fifteen digits. Longer numbers may not be exact in JavaScript. */
const CONTENT_LENGTH = /^(?:0|[1-9]\d{0,14})$/
/** A host name, an IPv4 address or a bracketed IPv6 address, with an optional port (RFC 9110, section 7.2). */
const HOST = /^(?:[A-Za-z0-9._~-]{1,255}|\[([0-9A-Fa-f:.]+)\])(?::(\d{1,5}))?$/
/**
 * The form of nearly every host: a name, with a port of at most four digits, whose range needs no check. This test
 * takes a quarter of the time of the full test.
 */
const PLAIN_HOST = /^[A-Za-z0-9._~-]{1,255}(?::\d{1,4})?$/
/**
 * Segments of `pchar` (RFC 3986, section 3.3), without `;`, which some servers interpret as the beginning of
 * a parameter.
 */
const PATH = /^(?:\/[A-Za-z0-9._~!$&'()*+,=:@%-]*)+$/
/**
 * The characters of RFC 3986, section 3.4, and also `[ ] { } | ^` and the backtick, which WHATWG's URL parser does not
 * encode.
 */
const QUERY = /^[A-Za-z0-9._~!$&'()*+,;=:@/?%[\]{}|^`-]*$/
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/

/** A request that contains one of these headers twice would be ambiguous. */
const SINGLETON_HEADERS = new Set([
  'authorization',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'idempotency-key',
  'transfer-encoding',
  'upgrade',
])

/** A valid request head. */
export interface RequestHead {
  readonly method: string
  readonly version: '1.0' | '1.1'
  /** The canonical path: routes are matched against it, and it is sent upstream. */
  readonly path: string
  /** The query with its `?`, or an empty string. */
  readonly query: string
  /** Undefined if the request has no body. */
  readonly framing: BodyFraming | undefined
  /**
   * Headers by lower-case name. Headers with `_` in their name are absent. Headers that `Connection` lists are absent
   * too, unless they are in `END_TO_END`.
   */
  readonly headers: ReadonlyMap<string, string>
  /** Whether the client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean
  /** Whether the client wants the connection closed after the response. */
  readonly closes: boolean
}

/** Throws `Http1Error`. */
export function validateRequestHead({
  method,
  target,
  version,
  fields,
}: RawRequestHead): RequestHead {
  checkSize(target, fields)
  if (version !== '1.1' && version !== '1.0') throw malformed('Use HTTP/1.1.')
  if (!METHODS.has(method)) {
    const message = `The method ${method.slice(0, 40)} is not supported.`
    throw new Http1Error('unknown_method', message)
  }
  const headers = collectHeaders(fields)
  checkHost(headers.get('host'))
  const framing = readFraming(method, version, headers)
  checkUpgrade(headers)
  const expectsContinue = readExpect(version, headers)
  const { path, query } = readTarget(target)
  const { closes, keepsAlive } = removeConnectionHeaders(headers)
  return {
    method,
    version,
    path,
    query,
    framing,
    headers,
    expectsContinue,
    closes: closes || (version === '1.0' && !keepsAlive),
  }
}

/**
 * Returns the client's request id if it was sent once and may be written to a log line. Called even for heads that
 * `validateRequestHead` rejects.
 */
export function clientRequestId(fields: readonly string[]): string | undefined {
  let requestId: string | undefined
  for (let index = 0; index < fields.length; index += 2) {
    if (fields[index] !== 'x-request-id') continue
    if (requestId !== undefined) return undefined
    requestId = fields[index + 1]
  }
  return requestId !== undefined && REQUEST_ID.test(requestId) ? requestId : undefined
}

function checkSize(target: string, fields: readonly string[]): void {
  if (target.length > TARGET_BYTES_MAX) throw targetTooLong()
  // One byte is added for each name and each value. This is roughly the size of the colons and the line ends.
  let bytes = fields.length
  for (const nameOrValue of fields) bytes += nameOrValue.length
  if (fields.length / 2 > HEADERS_MAX || bytes > HEADER_BYTES_MAX) throw headersTooLarge()
}

function collectHeaders(fields: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>()
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index] ?? ''
    const value = fields[index + 1] ?? ''
    // CGI-like servers treat `_` like `-`: they would read `content_length` as `Content-Length`.
    if (name.includes('_')) continue
    const earlier = headers.get(name)
    // Some proxies send each cookie in a line of its own. A comma would become part of a cookie's value.
    const separator = name === 'cookie' ? '; ' : ', '
    if (earlier === undefined) headers.set(name, value)
    else if (SINGLETON_HEADERS.has(name)) throw duplicate(name)
    else headers.set(name, earlier + separator + value)
  }
  return headers
}

function duplicate(name: string): Http1Error {
  const message = `The header ${name} is sent more than once.`
  if (name === 'authorization') return new Http1Error('duplicate_authorization', message)
  if (name === 'idempotency-key') return new Http1Error('duplicate_idempotency_key', message)
  return malformed(message)
}

function checkHost(host: string | undefined): void {
  if (host === undefined) throw malformed('The Host header is missing.')
  if (PLAIN_HOST.test(host)) return
  const [match, ipv6, port = '80'] = HOST.exec(host) ?? []
  const isInvalidIpv6 = ipv6 !== undefined && !isIPv6(ipv6)
  if (match === undefined || isInvalidIpv6 || Number(port) > 65_535) {
    throw malformed('The Host header is not a host and port.')
  }
}

/** RFC 9112, section 6. Throws if the framing is invalid, or if there is a body and the method allows none. */
function readFraming(
  method: string,
  version: string,
  headers: ReadonlyMap<string, string>,
): BodyFraming | undefined {
  const coding = headers.get('transfer-encoding')
  const length = headers.get('content-length')
  if (coding !== undefined) {
    if (coding !== 'chunked' || version === '1.0' || length !== undefined) {
      throw malformed('Transfer-Encoding may only be chunked, in HTTP/1.1, without Content-Length.')
    }
  } else if (length !== undefined && !CONTENT_LENGTH.test(length)) {
    throw malformed('Content-Length is not a plain decimal number.')
  }
  const bytes = Number(length ?? 0)
  if (coding === undefined && bytes === 0) return undefined
  if (!METHODS_WITH_BODY.has(method)) {
    throw malformed(`A ${method} request must not have a body.`)
  }
  return coding === undefined ? { kind: 'length', bytes } : { kind: 'chunked' }
}

/**
 * Ignores the offer of an upgrade to `h2c`, which Java's HTTP client makes in its first request; rejects all others.
 * RFC 9110, section 7.8 allows a server to ignore an offer: the client sends HTTP/2 frames only after a 101, which the
 * gateway never sends.
 */
function checkUpgrade(headers: ReadonlyMap<string, string>): void {
  const upgrade = headers.get('upgrade')
  if (upgrade !== undefined && upgrade.toLowerCase() !== 'h2c') {
    throw malformed('Upgrade is not supported.')
  }
}

/** RFC 9110, section 10.1.1: `100 Continue` must not be sent to an HTTP/1.0 client. */
function readExpect(version: string, headers: ReadonlyMap<string, string>): boolean {
  const expect = headers.get('expect')
  if (expect === undefined) return false
  if (expect.toLowerCase() === '100-continue') return version !== '1.0'
  throw malformed('Expect may only be 100-continue.')
}

function readTarget(target: string): { path: string; query: string } {
  const questionMark = target.indexOf('?')
  const path = questionMark < 0 ? target : target.slice(0, questionMark)
  const query = questionMark < 0 ? '' : target.slice(questionMark)
  if (!isCanonicalPath(path)) {
    throw malformed('The path is not in canonical form.')
  }
  if (query !== '' && (!QUERY.test(query.slice(1)) || !isEncodedText(query))) {
    throw malformed('The query is not correctly percent-encoded UTF-8.')
  }
  return { path, query }
}

/**
 * Whether the path has no dot segment, no empty segment except the last, no encoded letter, digit, `.`, `_`, `~` or
 * hyphen (a server that decodes `%2e%2e` or `%73` would see another path), and no encoded separator or control
 * character.
 */
function isCanonicalPath(path: string): boolean {
  if (!PATH.test(path) || path.includes('//') || /\/\.{1,2}(?:\/|$)/.test(path)) return false
  if (!path.includes('%')) return true
  const encodings = path.match(/%[0-9A-Fa-f]{2}/g) ?? []
  return (
    isEncodedText(path) &&
    encodings.every((encoding) => {
      const byte = Number.parseInt(encoding.slice(1), 16)
      return (
        byte > 0x7f || (byte > 0x1f && !/[A-Za-z0-9._~\-/\\;\x7f]/.test(String.fromCharCode(byte)))
      )
    })
  )
}

/** Whether every `%` begins an encoding, and the bytes are well-formed UTF-8 without NUL. */
function isEncodedText(text: string): boolean {
  if (/%(?![0-9A-Fa-f]{2})|%00/.test(text)) return false
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/**
 * `Connection` must not remove these headers. A client could otherwise hide the address that a proxy in front
 * of the gateway adds to `X-Forwarded-For`.
 */
const END_TO_END = new Set(['host', 'authorization', 'x-forwarded-for'])

/**
 * Removes the headers that `Connection` lists (RFC 9110, section 7.6.1). Returns the connection options of the client;
 * some clients send `close` in `Proxy-Connection`.
 */
function removeConnectionHeaders(headers: Map<string, string>) {
  let closes = headers.get('proxy-connection')?.toLowerCase() === 'close'
  let keepsAlive = false
  for (const name of headers.get('connection')?.split(',') ?? []) {
    const option = name.trim().toLowerCase()
    if (option === 'close') closes = true
    if (option === 'keep-alive') keepsAlive = true
    if (!END_TO_END.has(option)) headers.delete(option)
  }
  return { closes, keepsAlive }
}
