/** A call as the backend gets it, and the backend's answer as the client gets it. */
import type { Operation } from '../shared/contract.ts'
import { PRINCIPAL_HEADER } from '../shared/principal.ts'
import { Problem } from '../shared/problem.ts'
import type { UpstreamAnswer, UpstreamRequest } from './attempt.ts'
import type { KnownKey } from './key-look-up.ts'
import type { Reply } from './listener.ts'
import type { Head } from './request-check.ts'

/** Request headers that are meant for the backend, beside those the gateway sets. */
const FORWARDED_HEADERS = [
  'content-type',
  'content-encoding',
  'idempotency-key',
  'accept-language',
  'user-agent',
]
/** W3C Trace Context, version 00; a header of another form is dropped. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
const TRACESTATE_LENGTH_MAX = 512

/** RFC 9110, section 7.6.1, and what concerns the connection to the backend alone. */
const HOP_BY_HOP = [
  'alt-svc',
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]
/** Said by the gateway, or by nobody. */
const OURS = ['content-length', 'date', 'server', 'via', 'x-powered-by', 'x-request-id']
const NEVER = new Set([...HOP_BY_HOP, ...OURS])
/** RFC 9110, section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const NEVER_PREFIXES = ['x-ratelimit-', 'ratelimit', 'x-receivables-', 'access-control-']

export function toUpstream(
  head: Head,
  operation: Operation,
  body: Buffer,
  key: KnownKey,
  requestId: string,
): UpstreamRequest {
  const headers: Record<string, string> = {
    [PRINCIPAL_HEADER]: key.principal,
    'x-request-id': requestId,
    via: '1.1 receivables-gateway',
  }
  for (const name of FORWARDED_HEADERS) {
    const value = head.headers.get(name)
    if (value !== undefined) headers[name] = value
  }
  const traceparent = head.headers.get('traceparent')
  if (traceparent !== undefined && TRACEPARENT.test(traceparent)) {
    headers['traceparent'] = traceparent
    const tracestate = head.headers.get('tracestate') ?? ''
    if (tracestate !== '' && tracestate.length <= TRACESTATE_LENGTH_MAX) {
      headers['tracestate'] = tracestate
    }
  }
  const isRead = head.method === 'GET' || head.method === 'HEAD'
  return {
    method: head.method,
    target: head.path + head.query,
    headers,
    body,
    idempotent: isRead || (operation.idempotent && headers['idempotency-key'] !== undefined),
  }
}

export function toClient(head: Head, answer: UpstreamAnswer): Reply {
  const { status, headers, body } = answer
  // The backend says why it refuses a principal; a bare 401 is none of its answers.
  if (status === 401) throw garbled()
  const passed = passedHeaders(headers)
  const hasNoBody = head.method === 'HEAD' || status === 204 || status === 304
  if (!hasNoBody) return { status, headers: passed, body }
  const length = headers['content-length']
  if (typeof length === 'string') passed.push('content-length', length)
  return { status, headers: passed, body: undefined }
}

function garbled(): Problem {
  return new Problem('bad_gateway', 'The backend gave no usable answer.')
}

/** The headers that reach the client, names and values in turn. Throws 502 where one is garbled. */
export function passedHeaders(headers: UpstreamAnswer['headers']): string[] {
  const hopByHop = String(headers['connection'] ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
  const passed: string[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || NEVER.has(name) || hopByHop.includes(name)) continue
    if (NEVER_PREFIXES.some((prefix) => name.startsWith(prefix))) continue
    for (const single of Array.isArray(value) ? value : [value]) {
      if (!FIELD_VALUE.test(single)) throw garbled()
      passed.push(name, single)
    }
  }
  return passed
}
