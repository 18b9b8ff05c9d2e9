/**
 * Records each finished call in metrics, in the log (if `ACCESS_LOG` is `on`), and as spans (if the call is traced).
 * The log contains no secrets, and no personal data except the client's address. It contains the route instead of the
 * path and the query, and ids instead of keys. From the request headers, it contains only the client's address, the
 * request id and the trace id.
 */
import type { Problem } from '../../shared/contract/problem.ts'
import { type Logger, withoutRedaction } from '../../shared/process/log.ts'
import type { Tracing } from '../../shared/process/tracing.ts'
import type { Call } from '../call/call.ts'
import type { CallRecord } from '../call/call-record.ts'
import { clientAddress } from '../downstream/client-address.ts'
import type { CallMetrics } from './metrics.ts'
import { spanOfCall, spansOfSteps } from './spans.ts'

export interface AccessLog {
  recordCall(call: Call, status: number): void
  /** Records that bytes were rejected, because they are not a valid request or the request did not arrive in time. */
  recordInvalidRequest(requestId: string, address: string, problem: Problem): void
}

export interface AccessLogOptions {
  readonly log: Logger
  readonly logsCalls: boolean
  readonly callMetrics: CallMetrics
  readonly tracing: Tracing | undefined
  readonly trustedProxies: number
}

export function createAccessLog(options: AccessLogOptions): AccessLog {
  const { logsCalls, callMetrics, tracing, trustedProxies } = options
  // The logged fields are fixed and have no secrets, so redaction would only cost time.
  const log = withoutRedaction(options.log)

  function recordCall(call: Call, status: number): void {
    const { record } = call
    const now = performance.now()
    const ms = now - call.arrivedAt
    callMetrics.record(record, status, ms)
    if (logsCalls && log.isLevelEnabled('info')) {
      log.info(
        {
          requestId: call.requestId,
          // If the head was rejected, no method is logged, because it could be any text.
          method: record.head?.method,
          route: record.operation?.path,
          status,
          code: record.code,
          keyId: record.keyId,
          accountId: record.accountId,
          ms: rounded(ms),
          upstreamMs: record.upstreamMs === 0 ? undefined : rounded(record.upstreamMs),
          sentBytes: record.sentBytes,
          backend: record.backend,
          client: clientOf(record),
          traceId: record.trace?.id,
        },
        'call',
      )
    }
    if (tracing !== undefined && record.trace !== undefined) {
      tracing.record(record.trace, spanOfCall(call, status, now), spansOfSteps(record))
    }
  }

  function recordInvalidRequest(
    requestId: string,
    address: string,
    { status, code }: Problem,
  ): void {
    callMetrics.recordInvalidRequest(status, code)
    if (logsCalls) log.info({ requestId, status, code, client: address }, 'call')
  }

  function clientOf({ address, head }: CallRecord): string {
    return head === undefined ? address : clientAddress(address, head.headers, trustedProxies)
  }

  return { recordCall, recordInvalidRequest }
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}
