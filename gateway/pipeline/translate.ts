/** A call as the backend gets it, and the backend's answer as the client gets it. */
import type { Operation } from '../../shared/contract/contract.ts'
import { PRINCIPAL_HEADER } from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { type Trace, traceHeaders } from '../../shared/process/trace.ts'
import type { Reply } from '../downstream/response.ts'
import type { Head } from '../http1/request-head.ts'
import type { KnownKey } from '../keys/look-up.ts'
import type { UpstreamAnswer, UpstreamRequest } from '../upstream/attempt.ts'

/** Request headers that are meant for the backend, beside those the gateway sets. */
const FORWARDED_HEADERS = [
  'content-type',
  'content-encoding',
  'idempotency-key',
  'accept-language',
  'user-agent',
]

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
const NEVER_PREFIXES = ['x-ratelimit-', 'ratelimit', 'x-receivables-', 'access-control-']

/** What the gateway's records and the backend's are told apart and put together by. */
export interface Marks {
  readonly requestId: string
  /** Undefined: nobody traces it. */
  readonly trace: Trace | undefined
  /** Of the forwarding, which the backend's part of the trace hangs on. */
  readonly spanId: string | undefined
}

export function toUpstream(
  head: Head,
  operation: Operation,
  body: Buffer,
  key: KnownKey,
  { requestId, trace, spanId }: Marks,
): UpstreamRequest {
  const headers = [PRINCIPAL_HEADER, key.principal, 'x-request-id', requestId]
  headers.push('via', '1.1 receivables-gateway')
  if (trace !== undefined && spanId !== undefined) {
    headers.push(...Object.entries(traceHeaders(trace, spanId)).flat())
  }
  for (const name of FORWARDED_HEADERS) {
    const value = head.headers.get(name)
    if (value !== undefined) headers.push(name, value)
  }
  const isRead = head.method === 'GET' || head.method === 'HEAD'
  return {
    method: head.method,
    target: head.path + head.query,
    headers,
    body,
    idempotent: isRead || (operation.idempotent && head.headers.has('idempotency-key')),
  }
}

export function toClient(head: Head, answer: UpstreamAnswer): Reply {
  const { status, headers, body } = answer
  // The backend says why it refuses a principal; a bare 401 is none of its answers.
  if (status === 401) throw garbled()
  const passed = passedHeaders(headers)
  const hasNoBody = head.method === 'HEAD' || status === 204 || status === 304
  if (!hasNoBody) return { status, headers: passed, body }
  const length = headerOf(headers, 'content-length')
  // RFC 9110, section 8.6: not of an answer that never has a body.
  if (length !== undefined && status !== 204) passed.push('content-length', length)
  return { status, headers: passed, body: undefined }
}

function garbled(): Problem {
  return new Problem('bad_gateway', 'The backend gave no usable answer.')
}

/** The headers that reach the client. Both lists hold names in lower case and values, in turn. */
export function passedHeaders(headers: readonly string[]): string[] {
  const hopByHop = connectionOptions(headers)
  const passed: string[] = []
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? ''
    if (NEVER.has(name) || hopByHop.includes(name)) continue
    if (NEVER_PREFIXES.some((prefix) => name.startsWith(prefix))) continue
    passed.push(name, headers[at + 1] ?? '')
  }
  return passed
}

/** The names that are the connection's, beside those that always are. */
function connectionOptions(headers: readonly string[]): readonly string[] {
  let text = ''
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === 'connection') text += `${headers[at + 1]},`
  }
  // Mostly it names nothing but what is the connection's anyway.
  return text === '' || text === 'keep-alive,' ? NONE : text.toLowerCase().split(/[\t ]*,[\t ]*/)
}

const NONE: readonly string[] = []

/** The first of this name. */
export function headerOf(headers: readonly string[], name: string): string | undefined {
  for (let at = 0; at < headers.length; at += 2) if (headers[at] === name) return headers[at + 1]
  return undefined
}
