/**
 * The one place that writes answers. Every answer carries the request id and what is left of the
 * key's hour; one without an authenticated key carries 0, for without a key there is no allowance.
 */
import { STATUS_CODES } from 'node:http'
import type { Readable } from 'node:stream'
import {
  PROBLEM_MEDIA_TYPE,
  Problem,
  type ProblemCode,
  renderProblem,
} from '../../shared/contract/problem.ts'
import { type Allowance, secondsToReset, WINDOW_MS } from '../rate-limit/limiter.ts'
import { KEEP_ALIVE_MS } from './connection.ts'

export interface Answer {
  readonly status: number
  /** Names and values in turn; without the length of `body`, unless that is a stream. */
  readonly headers: readonly string[]
  /** Undefined where the status or the method has none. */
  readonly body: Buffer | undefined
}

/** An answer whose body may still be arriving. */
export type Reply = Omit<Answer, 'body'> & { readonly body: Answer['body'] | Readable }

/** What an answer says of its call. */
export interface AnswerContext {
  readonly requestId: string
  /** The connection ends with it. */
  readonly closes: boolean
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
  return {
    status: problem.status,
    headers,
    body: Buffer.from(renderProblem(problem, baseUrl, requestId)),
  }
}

/** The head of an answer, with the empty line at its end. */
export function renderHead(
  { status, headers }: Pick<Answer, 'status' | 'headers'>,
  context: AnswerContext,
): string {
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return `${text}${contextLines(context)}date: ${httpDate()}\r\n${
    context.closes ? 'connection: close\r\n' : KEPT_ALIVE
  }\r\n`
}

/** The header for the length of a whole body. */
export function lengthHeader(body: Answer['body']): string[] {
  return body === undefined ? [] : ['content-length', String(body.length)]
}

const KEPT_ALIVE = `connection: keep-alive\r\nkeep-alive: timeout=${KEEP_ALIVE_MS / 1000}\r\n`

/** Request id and rate limit, in the spec's headers and the IETF draft's. */
function contextLines({ requestId, allowance }: AnswerContext): string {
  if (allowance === undefined) return `x-request-id: ${requestId}\r\nx-ratelimit-remaining: 0\r\n`
  const { limit, used, windowEndsAt, degraded } = allowance
  const remaining = Math.max(0, limit - used)
  return `x-request-id: ${requestId}\r
x-ratelimit-limit: ${limit}\r
x-ratelimit-remaining: ${remaining}\r
x-ratelimit-reset: ${Math.ceil(windowEndsAt / 1000)}\r
ratelimit-policy: "hour";q=${limit};w=${WINDOW_MS / 1000}${degraded ? ';degraded' : ''}\r
ratelimit: "hour";r=${remaining};t=${secondsToReset(allowance)}\r
`
}

let dateSecond = 0
let date = ''

/** Of this second (RFC 9110, section 5.6.7). */
function httpDate(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    date = new Date(second * 1000).toUTCString()
  }
  return date
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
