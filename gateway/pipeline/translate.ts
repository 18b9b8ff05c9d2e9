import type { Operation } from '../../shared/contract/contract.ts'
import { CLIENT_ADDRESS_HEADER, PRINCIPAL_HEADER } from '../../shared/contract/principal.ts'
import { type Trace, traceHeaders } from '../../shared/process/trace.ts'
import type { Response } from '../downstream/response.ts'
import { fieldValue } from '../http1/fields.ts'
import type { RequestHead } from '../http1/request-head.ts'
import type { KnownKey } from '../keys/look-up.ts'
import type { UpstreamRequest, UpstreamResponse } from '../upstream/attempt.ts'
import { isReadOnly, lostResponse } from '../upstream/lost-response.ts'
import { headersForClient } from '../upstream/response-headers.ts'

/** The client's request headers that are forwarded to the backend. */
const FORWARDED_HEADERS = [
  'content-type',
  'content-encoding',
  'idempotency-key',
  'accept-language',
  'user-agent',
]

export interface CallContext {
  readonly requestId: string
  /** Undefined if the call is not traced. */
  readonly trace: Trace | undefined
  /** The id of the gateway's span for forwarding the call. This span is the parent of the backend's spans. */
  readonly spanId: string | undefined
  /** The address of the client; undefined unless the key is restricted to addresses. */
  readonly address: string | undefined
}

export function toUpstream(
  head: RequestHead,
  operation: Operation,
  body: Buffer,
  key: KnownKey,
  { requestId, trace, spanId, address }: CallContext,
): UpstreamRequest {
  const headers = [PRINCIPAL_HEADER, key.principal, 'x-request-id', requestId]
  headers.push('via', '1.1 receivables-gateway')
  if (trace !== undefined && spanId !== undefined) {
    headers.push(...Object.entries(traceHeaders(trace, spanId)).flat())
  }
  if (address !== undefined) headers.push(CLIENT_ADDRESS_HEADER, address)
  for (const name of FORWARDED_HEADERS) {
    const value = head.headers.get(name)
    if (value !== undefined) headers.push(name, value)
  }
  return {
    accountId: key.accountId,
    method: head.method,
    target: head.path + head.query,
    headers,
    body,
    idempotent: isReadOnly(head) || (operation.idempotent && head.headers.has('idempotency-key')),
  }
}

/** Must not be called for a response that rejects the principal. Throws `Problem` 502 for any other 401. */
export function toClient(request: UpstreamRequest, response: UpstreamResponse): Response {
  const { status, headers, body } = response
  // This 401 is a fault of the backend, and says nothing about the client's key.
  if (status === 401) {
    throw lostResponse('bad_gateway', 'The response cannot be used.', request)
  }
  const forwarded = headersForClient(headers)
  const hasNoBody = request.method === 'HEAD' || status === 204 || status === 304
  if (!hasNoBody) return { status, headers: forwarded, body }
  const length = fieldValue(headers, 'content-length')
  // RFC 9110, section 8.6: a 204 has no length.
  if (length !== undefined && status !== 204) forwarded.push('content-length', length)
  return { status, headers: forwarded, body: undefined }
}
