/**
 * The one place that writes answers. Every answer carries the request id and what is left of the
 * key's hour; one without an authenticated key carries 0, for without a key there is no allowance.
 */
import { type ServerResponse, STATUS_CODES } from 'node:http'
import { PROBLEM_MEDIA_TYPE, Problem, type ProblemCode, renderProblem } from '../shared/problem.ts'
import { type Allowance, secondsToReset, WINDOW_MS } from './accounting.ts'

export interface Answer {
  readonly status: number
  /** Names and values in turn, as `writeHead` takes them; without the length of `body`. */
  readonly headers: readonly string[]
  /** Undefined where the status or the method has none. */
  readonly body: Buffer | string | undefined
}

/** What an answer says of its call. */
export interface AnswerContext {
  readonly requestId: string
  /** Undefined until the key is authenticated. */
  readonly allowance: Allowance | undefined
}

/** How the failures we report are called in `Proxy-Status` (RFC 9209, section 2.3). */
const PROXY_ERRORS: Partial<Record<ProblemCode, string>> = {
  bad_gateway: 'http_protocol_error',
  service_unavailable: 'destination_unavailable',
  gateway_timeout: 'http_response_timeout',
  internal_error: 'proxy_internal_error',
  missing_api_key: 'http_request_denied',
  malformed_authorization: 'http_request_denied',
  invalid_api_key: 'http_request_denied',
  revoked_api_key: 'http_request_denied',
  insufficient_scope: 'http_request_denied',
  rate_limit_exceeded: 'http_request_denied',
}

/** The answer to a refusal. What was not meant as one is our own fault: a 500 that says nothing. */
export function problemAnswer(problem: Problem, baseUrl: string, requestId: string): Answer {
  const error = PROXY_ERRORS[problem.code] ?? 'http_request_error'
  const headers = ['content-type', PROBLEM_MEDIA_TYPE, 'cache-control', 'no-store']
  headers.push('proxy-status', `receivables-gateway; error=${error}`)
  for (const [name, value] of Object.entries(problem.headers)) headers.push(name, value)
  return { status: problem.status, headers, body: renderProblem(problem, baseUrl, requestId) }
}

/** Sends a whole answer; gives the length of its body. `close`: the connection ends with it. */
export function sendAnswer(
  res: ServerResponse,
  answer: Answer,
  context: AnswerContext,
  close: boolean,
): number {
  const headers = [...answer.headers, ...contextHeaders(context)]
  const length = answer.body === undefined ? 0 : Buffer.byteLength(answer.body)
  if (answer.body !== undefined) headers.push('content-length', String(length))
  if (close) headers.push('connection', 'close')
  res.writeHead(answer.status, headers)
  res.end(answer.body)
  return length
}

/** The same as bytes, for a connection whose request Node could not parse. */
export function renderAnswer(answer: Answer, context: AnswerContext): string {
  const { body = '' } = answer
  const headers = [...answer.headers, ...contextHeaders(context), 'connection', 'close']
  headers.push('date', new Date().toUTCString())
  headers.push('content-length', String(Buffer.byteLength(body)))
  const lines = [`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ''}`]
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`)
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

/** Request id and rate limit, in the spec's headers and the IETF draft's. */
export function contextHeaders({ requestId, allowance }: AnswerContext): string[] {
  if (allowance === undefined) {
    return ['x-request-id', requestId, 'x-ratelimit-remaining', '0']
  }
  const { limit, used, windowEndsAt, degraded } = allowance
  const remaining = Math.max(0, limit - used)
  const policy = `"hour";q=${limit};w=${WINDOW_MS / 1000}${degraded ? ';degraded' : ''}`
  return [
    'x-request-id',
    requestId,
    'x-ratelimit-limit',
    String(limit),
    'x-ratelimit-remaining',
    String(remaining),
    'x-ratelimit-reset',
    String(Math.ceil(windowEndsAt / 1000)),
    'ratelimit-policy',
    policy,
    'ratelimit',
    `"hour";r=${remaining};t=${secondsToReset(allowance)}`,
  ]
}

/** What an error becomes for the client. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  return new Problem(
    'internal_error',
    'Something went wrong on our side. Repeat a write only with the same Idempotency-Key.',
    { cause: error },
  )
}
