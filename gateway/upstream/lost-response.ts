import { Problem } from '../../shared/contract/problem.ts'
import type { UpstreamRequest } from './attempt.ts'

type SentRequest = Pick<UpstreamRequest, 'method' | 'idempotent'>

/**
 * Returns the problem of a call whose response is lost or cannot be used. The detail is `reason`, a sentence, followed
 * by advice.
 */
export function lostResponse(
  code: 'bad_gateway' | 'gateway_timeout',
  reason: string,
  request: SentRequest,
  cause?: unknown,
): Problem {
  return new Problem(code, `${reason} ${adviceFor(request)}`, { cause })
}

/** Whether the request has no effect, even if a backend has processed it. */
export function isReadOnly({ method }: Pick<SentRequest, 'method'>): boolean {
  return method === 'GET' || method === 'HEAD'
}

function adviceFor(request: SentRequest): string {
  if (isReadOnly(request)) return 'Try again in a second.'
  return request.idempotent
    ? 'Whether the request was carried out is unknown; retry with the same Idempotency-Key.'
    : 'Whether the request was carried out is unknown. Check this before you retry: the request had no Idempotency-Key, so it may be carried out twice.'
}
