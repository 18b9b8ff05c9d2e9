/** Creates the spans of a call, by OpenTelemetry's conventions for HTTP servers. */
import type { Span } from '../../shared/process/tracing.ts'
import type { Call } from '../call/call.ts'
import type { CallStep } from '../call/call-record.ts'

/** `to` is `performance.now()` when the call ended. */
export function spanOfCall(
  { record, arrivedAt, requestId }: Call,
  status: number,
  to: number,
): Span {
  const { head, operation, code, keyId, accountId } = record
  const method = head?.method ?? 'HTTP'
  return {
    name: operation === undefined ? method : `${method} ${operation.path}`,
    kind: 'server',
    from: arrivedAt,
    to,
    failed: status >= 500,
    attributes: {
      'http.request.method': head?.method,
      'http.route': operation?.path,
      'http.response.status_code': status,
      'error.type': code,
      'receivables.request_id': requestId,
      'receivables.key_id': keyId,
      'receivables.account_id': accountId,
    },
  }
}

/** Returns no spans if the gateway exports no traces: the call record then has no steps. */
export function spansOfSteps({ steps = [], backend }: Call['record']): Span[] {
  return steps.map(({ name, spanId, from, to, failed }: CallStep) => ({
    name,
    kind: name === 'forward' ? 'client' : 'internal',
    id: spanId,
    from,
    to,
    failed,
    attributes: name === 'forward' ? { 'server.address': backend } : {},
  }))
}
