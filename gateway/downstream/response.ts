import type { Readable } from 'node:stream'
import {
  PROBLEM_MEDIA_TYPE,
  Problem,
  type ProblemCode,
  renderProblem,
} from '../../shared/contract/problem.ts'
import { Http1Error, type Http1Fault } from '../http1/errors.ts'
import { renderResponseHead } from '../http1/message-writer.ts'

/**
 * How long an idle connection stays open. Load balancers in front should close idle connections sooner. Otherwise, they
 * may send a call on a connection that the gateway is closing.
 */
export const KEEP_ALIVE_MS = 65_000

export interface Response {
  readonly status: number
  /** Names and values alternate. Includes `content-length` only if `body` is not a `Buffer`. */
  readonly headers: readonly string[]
  /** A stream if the body is still arriving; undefined if the status or the method allows no body. */
  readonly body: Buffer | Readable | undefined
}

export type WholeResponse = Omit<Response, 'body'> & { readonly body: Buffer | undefined }

/** The response to a call, or the problem with which the call is rejected. */
export type Outcome = Response | Problem

/** The parts of a response's head that are not in its `Response`. */
export interface ResponseContext {
  readonly requestId: string
  /** Names and values alternate. */
  readonly rateLimitHeaders: readonly string[]
  readonly closes: boolean
}

/** The error types of `Proxy-Status` (RFC 9209, section 2.3) by status; `http_request_error` for all others. */
const PROXY_ERRORS: ReadonlyMap<number, string> = new Map([
  [401, 'http_request_denied'],
  [403, 'http_request_denied'],
  [429, 'http_request_denied'],
  [500, 'proxy_internal_error'],
  [502, 'http_protocol_error'],
  [503, 'destination_unavailable'],
  [504, 'http_response_timeout'],
])

/** Returns the headers of the response that reports the problem to the client, without `content-type`. */
export function problemHeaders({ status, headers }: Problem): string[] {
  const error = PROXY_ERRORS.get(status) ?? 'http_request_error'
  return [
    'cache-control',
    'no-store',
    'proxy-status',
    `receivables-gateway; error=${error}`,
    ...Object.entries(headers).flat(),
  ]
}

interface RenderedProblem {
  readonly problem: Problem
  readonly headers: readonly string[]
  /** The part of the document before the request id; `afterId` is the part after the request id. */
  readonly beforeId: string
  readonly afterId: string
}

/**
 * Returns a function that renders a problem. The function caches the headers and the document of the last `Problem`
 * object, without the request id: under overload, most calls are rejected with the same object.
 */
export function createProblemRenderer(
  baseUrl: string,
): (problem: Problem, requestId: string) => WholeResponse {
  let last: RenderedProblem | undefined
  return (problem, requestId) => {
    if (last?.problem !== problem) last = renderWithoutId(problem, baseUrl)
    const { headers, beforeId, afterId } = last
    // No character of a request id has to be escaped in JSON.
    const body = Buffer.from(beforeId + requestId + afterId)
    return { status: problem.status, headers, body }
  }
}

function renderWithoutId(problem: Problem, baseUrl: string): RenderedProblem {
  // In texts such as `detail`, JSON escapes quotation marks, so `emptyId` occurs only as the member itself.
  const emptyId = '"request_id":""'
  const document = renderProblem(problem, baseUrl, '')
  const at = document.indexOf(emptyId) + emptyId.length - 1
  return {
    problem,
    headers: ['content-type', PROBLEM_MEDIA_TYPE, ...problemHeaders(problem)],
    beforeId: document.slice(0, at),
    afterId: document.slice(at),
  }
}

/**
 * Renders the head of a response, with the empty line at its end. `framing` is the header that shows where the body
 * ends; it is empty if there is no such header, or if `headers` contains it.
 */
export function renderHead(
  { status, headers }: Pick<Response, 'status' | 'headers'>,
  framing: readonly string[],
  { requestId, rateLimitHeaders, closes }: ResponseContext,
): string {
  return renderResponseHead(status, [
    headers,
    framing,
    ['x-request-id', requestId],
    rateLimitHeaders,
    ['date', httpDate()],
    closes ? CLOSE : KEEP_ALIVE,
  ])
}

const CLOSE = ['connection', 'close']
const KEEP_ALIVE = ['connection', 'keep-alive', 'keep-alive', `timeout=${KEEP_ALIVE_MS / 1000}`]

export function lengthHeader(body: Buffer | undefined): string[] {
  return body === undefined ? [] : ['content-length', String(body.length)]
}

let dateSecond = 0
let date = ''

/** Returns the date in the format of RFC 9110, section 5.6.7. */
function httpDate(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    date = new Date(second * 1000).toUTCString()
  }
  return date
}

const FAULT_CODES: Record<Http1Fault, ProblemCode> = {
  malformed: 'bad_request',
  unknown_method: 'method_not_allowed',
  duplicate_authorization: 'malformed_authorization',
  duplicate_idempotency_key: 'idempotency_key_invalid',
  target_too_long: 'uri_too_long',
  headers_too_large: 'headers_too_large',
}
/** RFC 9110 requires a challenge in each 401 (section 15.5.2), and the allowed methods in each 405 (section 15.5.6). */
function headersOf(fault: Http1Fault, allow: string): Readonly<Record<string, string>> {
  if (fault === 'unknown_method') return { allow }
  if (fault !== 'duplicate_authorization') return {}
  return { 'www-authenticate': 'Bearer realm="api", error="invalid_token"' }
}

/**
 * Converts an error into a problem. An unexpected error becomes a 500 that does not describe the error. `allow` lists
 * the methods of the path; it is empty if there is nothing at the path.
 */
export function asProblem(error: unknown, allow = ''): Problem {
  if (error instanceof Problem) return error
  if (error instanceof Http1Error) {
    const headers = headersOf(error.fault, allow)
    return new Problem(FAULT_CODES[error.fault], error.message, { headers })
  }
  return new Problem(
    'internal_error',
    'Something went wrong on our side. Repeat a write only with the same Idempotency-Key.',
    { cause: error },
  )
}
