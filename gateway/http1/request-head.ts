/**
 * The door. A request whose head could be read two ways, here and at another hop, is refused before
 * anything is counted or sent. What passes has one method, one canonical target, one length and one
 * of each header that matters. After a refusal the connection closes, and what follows on it is never
 * parsed.
 */
import { isIPv6 } from 'node:net'
import { Problem, type ProblemCode } from '../../shared/contract/problem.ts'

export const TARGET_BYTES_MAX = 8 * 1024
export const HEADER_BYTES_MAX = 16 * 1024
export const HEADERS_MAX = 100

/** Known methods. PUT, PATCH and DELETE reach the routing, which answers 405 with `Allow`. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'PATCH', 'DELETE'])
const METHODS_WITH_BODY = new Set(['POST', 'PUT', 'PATCH'])
/** Fifteen digits stay exact in a double, and no body is that long. */
const CONTENT_LENGTH = /^(?:0|[1-9]\d{0,14})$/
/** `reg-name`, IPv4 or a bracketed IPv6 address, and a port (RFC 9110, section 7.2). */
const HOST = /^(?:[A-Za-z0-9._~-]{1,255}|\[([0-9A-Fa-f:.]+)\])(?::(\d{1,5}))?$/
/** What nearly all are: a name, and a port that is none too large. Looked for first, it costs a quarter. */
const PLAIN_HOST = /^[A-Za-z0-9._~-]{1,255}(?::\d{1,4})?$/
/** `pchar` without `;`, which servers take for a parameter (RFC 3986, section 3.3). */
const PATH = /^(?:\/[A-Za-z0-9._~!$&'()*+,=:@%-]*)+$/
/** RFC 3986, section 3.4, and what URL parsers of the WHATWG leave as it is: `[ ] { } | ^` and a grave. */
const QUERY = /^[A-Za-z0-9._~!$&'()*+,;=:@/?%[\]{}|^`-]*$/
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/

/** Headers that a second of would give two meanings. */
const SINGLE = new Set([
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

export type BodyFraming =
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'chunked' }

/** A head as it was written, in well-formed lines. */
export interface RawHead {
  readonly method: string
  readonly target: string
  /** e.g. `1.1` */
  readonly version: string
  /** Names in lower case and values, in turn. */
  readonly fields: readonly string[]
}

/** The head of a request that can be read one way only. */
export interface Head {
  readonly method: string
  readonly version: '1.0' | '1.1'
  /** Canonical path: what routes are matched against and what is sent upstream. */
  readonly path: string
  /** With its `?`, or empty. */
  readonly query: string
  /** Undefined: there is no body. */
  readonly framing: BodyFraming | undefined
  /** By lower-case name; without what `Connection` names, without names that hold `_`. */
  readonly headers: ReadonlyMap<string, string>
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean
  /** The connection ends with the answer. */
  readonly closes: boolean
}

/** Throws a `Problem`; the connection then closes. */
export function checkHead({ method, target, version, fields }: RawHead): Head {
  checkSize(target, fields)
  if (version !== '1.1' && version !== '1.0') throw new Problem('bad_request', 'Use HTTP/1.1.')
  if (!METHODS.has(method)) throw methodUnknown(method)
  const headers = collectHeaders(fields)
  checkHost(headers.get('host'))
  const framing = readFraming(method, version, headers)
  checkUpgrade(headers, framing)
  const expectsContinue = readExpect(version, headers)
  const { path, query } = readTarget(target)
  const { closes, keepsAlive } = takeConnectionOptions(headers)
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

/** The client's own request id where it is one that can stand in a log line. */
export function clientRequestId(fields: readonly string[]): string | undefined {
  let found: string | undefined
  for (let name = 0; name < fields.length; name += 2) {
    if (fields[name] !== 'x-request-id') continue
    if (found !== undefined) return undefined
    found = fields[name + 1]
  }
  return found !== undefined && REQUEST_ID.test(found) ? found : undefined
}

export function methodUnknown(method: string): Problem {
  return new Problem(
    'method_not_allowed',
    `The method ${method.slice(0, 40)} is not served here.`,
    {
      headers: { allow: 'GET, HEAD, POST, OPTIONS' },
    },
  )
}

function checkSize(target: string, fields: readonly string[]): void {
  if (target.length > TARGET_BYTES_MAX) throw targetTooLong()
  let bytes = fields.length
  for (const part of fields) bytes += part.length
  if (fields.length / 2 > HEADERS_MAX || bytes > HEADER_BYTES_MAX) throw headersTooLarge()
}

export function targetTooLong(): Problem {
  return new Problem('uri_too_long', `The request target is over ${TARGET_BYTES_MAX} bytes.`)
}

export function headersTooLarge(): Problem {
  return new Problem(
    'headers_too_large',
    `Send at most ${HEADERS_MAX} headers of ${HEADER_BYTES_MAX} bytes together.`,
  )
}

function collectHeaders(fields: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>()
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at] ?? ''
    const value = fields[at + 1] ?? ''
    // CGI-like hops read `_` and `-` as the same: `content_length` must not reach one.
    if (name.includes('_')) continue
    const earlier = headers.get(name)
    if (earlier === undefined) headers.set(name, value)
    else if (SINGLE.has(name)) throw repeated(name)
    else headers.set(name, `${earlier}, ${value}`)
  }
  return headers
}

function repeated(name: string): Problem {
  const codes: Record<string, ProblemCode> = {
    authorization: 'malformed_authorization',
    'idempotency-key': 'idempotency_key_invalid',
  }
  return new Problem(codes[name] ?? 'bad_request', `The header ${name} is sent more than once.`)
}

function checkHost(host: string | undefined): void {
  if (host === undefined) throw new Problem('bad_request', 'The Host header is missing.')
  if (PLAIN_HOST.test(host)) return
  const [isHost, ipv6, port = '80'] = HOST.exec(host) ?? []
  const isAddress = ipv6 === undefined || isIPv6(ipv6)
  if (isHost === undefined || !isAddress || Number(port) > 65_535) {
    throw new Problem('bad_request', 'The Host header is not a host and port.')
  }
}

/** RFC 9112, section 6: the length of a body, where only one reading is possible. */
function readFraming(
  method: string,
  version: string,
  headers: ReadonlyMap<string, string>,
): BodyFraming | undefined {
  const coding = headers.get('transfer-encoding')
  const length = headers.get('content-length')
  if (coding !== undefined) {
    if (coding !== 'chunked' || version === '1.0' || length !== undefined) {
      throw new Problem(
        'bad_request',
        'Transfer-Encoding may only be chunked, in HTTP/1.1, without Content-Length.',
      )
    }
  } else if (length !== undefined && !CONTENT_LENGTH.test(length)) {
    throw new Problem('bad_request', 'Content-Length is not a plain decimal number.')
  }
  const bytes = Number(length ?? 0)
  if (coding === undefined && bytes === 0) return undefined
  if (!METHODS_WITH_BODY.has(method)) {
    throw new Problem('bad_request', `A ${method} request carries no body.`)
  }
  return coding === undefined ? { kind: 'length', bytes } : { kind: 'chunked' }
}

/** Java's client offers `h2c` with every first request; without a body it is safe to ignore. */
function checkUpgrade(headers: ReadonlyMap<string, string>, framing: Head['framing']): void {
  const upgrade = headers.get('upgrade')
  if (upgrade === undefined) return
  if (upgrade.toLowerCase() === 'h2c' && framing === undefined) return
  throw new Problem('bad_request', 'Upgrade is not offered here.')
}

/** RFC 9110, section 10.1.1: HTTP/1.0 has no answer 100. */
function readExpect(version: string, headers: ReadonlyMap<string, string>): boolean {
  const expect = headers.get('expect')
  if (expect === undefined) return false
  if (expect.toLowerCase() === '100-continue') return version !== '1.0'
  throw new Problem('bad_request', 'Expect may only be 100-continue.')
}

function readTarget(target: string): { path: string; query: string } {
  const at = target.indexOf('?')
  const path = at < 0 ? target : target.slice(0, at)
  const query = at < 0 ? '' : target.slice(at)
  if (!isCanonicalPath(path)) {
    throw new Problem('bad_request', 'The path is not in canonical form.')
  }
  if (query !== '' && (!QUERY.test(query.slice(1)) || !isEncodedText(query))) {
    throw new Problem('bad_request', 'The query is not correctly percent-encoded UTF-8.')
  }
  return { path, query }
}

/**
 * One spelling a resource: no empty or dot segment, nothing encoded that need not be (a hop that
 * decodes `%2e%2e` or `%73` would see another path), no encoded separator or control character.
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

/** Every `%` begins an encoding, the bytes are well-formed UTF-8, and none is NUL. */
function isEncodedText(text: string): boolean {
  if (/%(?![0-9A-Fa-f]{2})|%00/.test(text)) return false
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** What `Connection` names and is not for it to take away: the last is said by the proxies in front. */
const NEVER_OF_THE_CONNECTION = new Set(['host', 'authorization', 'x-forwarded-for'])

/**
 * RFC 9110, section 7.6.1: what `Connection` names is between the client and us. What the client wants
 * of the connection; some still say so in `Proxy-Connection`.
 */
function takeConnectionOptions(headers: Map<string, string>) {
  let closes = headers.get('proxy-connection')?.toLowerCase() === 'close'
  let keepsAlive = false
  for (const name of headers.get('connection')?.split(',') ?? []) {
    const option = name.trim().toLowerCase()
    if (option === 'close') closes = true
    if (option === 'keep-alive') keepsAlive = true
    if (!NEVER_OF_THE_CONNECTION.has(option)) headers.delete(option)
  }
  return { closes, keepsAlive }
}
