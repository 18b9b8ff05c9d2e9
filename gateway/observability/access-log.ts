/**
 * What is told of each call once it is over: a line of the log, numbers, and spans where traces are
 * wanted. Only what cannot hold a secret or a person's data: the route and not the path, ids and not
 * keys, no query, no header of the client's but the address that proxies saw.
 */

import type { Problem } from '../../shared/contract/problem.ts'
import { type Logger, withoutRedaction } from '../../shared/process/log.ts'
import type { Tracing } from '../../shared/process/tracing.ts'
import { clientAddress } from '../downstream/client-address.ts'
import type { Call } from '../pipeline/call.ts'
import type { CallStory } from './call-record.ts'
import type { CallNumbers } from './metrics.ts'
import { spanOfCall, spansOfSteps } from './spans.ts'

export interface Access {
  /** A call is over. */
  tell(call: Call, status: number): void
  /** Bytes that never became a call were answered. */
  tellRefused(requestId: string, address: string, problem: Problem): void
}

export interface AccessOptions {
  readonly log: Logger
  /** Whether there is a line a call. */
  readonly lines: boolean
  readonly numbers: CallNumbers
  readonly tracing: Tracing | undefined
  readonly trustedProxies: number
}

export function createAccess(options: AccessOptions): Access {
  const { lines, numbers, tracing, trustedProxies } = options
  const log = withoutRedaction(options.log)

  function tell(call: Call, status: number): void {
    const { story } = call
    const now = performance.now()
    const ms = now - call.arrivedAt
    numbers.note(story, status, ms)
    if (lines && log.isLevelEnabled('info')) {
      log.info(
        {
          requestId: call.requestId,
          // Of a refused head it may be anything.
          method: story.head?.method,
          // A template: what stands in the path itself is the client's.
          route: story.operation?.path,
          status,
          code: story.code,
          keyId: story.keyId,
          accountId: story.accountId,
          ms: rounded(ms),
          upstreamMs: story.upstreamMs === 0 ? undefined : rounded(story.upstreamMs),
          sentBytes: story.sentBytes,
          backend: story.backend,
          client: clientOf(story),
          traceId: story.trace?.id,
        },
        'call',
      )
    }
    if (tracing !== undefined && story.trace !== undefined) {
      tracing.record(story.trace, spanOfCall(call, status, now), spansOfSteps(story))
    }
  }

  function tellRefused(requestId: string, address: string, { status, code }: Problem): void {
    numbers.noteRefused(status, code)
    if (lines) log.info({ requestId, status, code, client: address }, 'call')
  }

  function clientOf({ address, head }: CallStory): string {
    return head === undefined ? address : clientAddress(address, head.headers, trustedProxies)
  }

  return { tell, tellRefused }
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}
