/**
 * Converts errors of requests into responses and logs them, except that a missing route gets a bare 404 and no log
 * entry. Problems that Settings shows in the form that was sent do not get here (`settings/shell/page-route.ts`).
 */
import { Boom } from '@hapi/boom'
import type { Request, ResponseToolkit, Server } from '@hapi/hapi'
import { createId } from '../../shared/contract/id.ts'
import {
  PROBLEM_MEDIA_TYPE,
  Problem,
  type ProblemCode,
  renderProblem,
  temporarilyUnavailable,
} from '../../shared/contract/problem.ts'
import { createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import { type Logger, withoutRedaction } from '../../shared/process/log.ts'
import { respondBare404 } from './gateway-requests.ts'

/** Problem codes by status, for hapi's own errors that a gateway's request can cause. */
const CODES: ReadonlyMap<number, ProblemCode> = new Map([
  [400, 'bad_request'],
  [408, 'request_timeout'],
  [413, 'payload_too_large'],
  [415, 'unsupported_media_type'],
  [503, 'service_unavailable'],
])

/** Returns a page to show instead of the problem document, or undefined. */
export type RenderProblemPage = (
  request: Request,
  problem: Problem,
  requestId: string,
) => string | undefined

export interface ProblemResponsesOptions {
  readonly baseUrl: string
  readonly log: Logger
  readonly renderPage: RenderProblemPage
  countProblem(problem: Problem): void
}

export function respondWithProblems(server: Server, options: ProblemResponsesOptions): void {
  const { baseUrl, log, renderPage, countProblem } = options
  const collapsingLog = createCollapsingLog(log)
  // The entries of client errors contain no secrets, and redacting an entry takes longer than writing it.
  const unredactedLog = withoutRedaction(log)
  // hapi itself responds if a response cannot be sent, e.g. because of an invalid character in a header.
  server.events.on({ name: 'request', channels: 'error' }, (request, { error }) => {
    const { method, route } = request
    const fields = { requestId: requestIdOf(request), method, route: route.path }
    collapsingLog.error(`unsendable ${route.path}`, { err: error, ...fields }, 'internal_error')
    countProblem(problemOf(new Error('unsendable', { cause: error })))
  })
  server.ext('onPreResponse', (request, h) => {
    const { response } = request
    if (!(response instanceof Error)) return h.continue
    // The gateway forwards no API call whose route does not exist.
    if (isRouteMissing(response)) return respondBare404(h)
    const problem = problemOf(response)
    const requestId = requestIdOf(request)
    countProblem(problem)
    const { method, route } = request
    // The log has the route instead of the path, because a path may contain secrets of the client.
    const fields = { requestId, method, route: route.path }
    if (problem.status >= 500) {
      const kind = `${problem.code} ${route.path}`
      collapsingLog.error(kind, { err: problem.cause ?? response, ...fields }, problem.code)
    } else {
      unredactedLog.info(fields, problem.code)
    }
    const page = renderPage(request, problem, requestId)
    return page === undefined
      ? respond(h, problem, PROBLEM_MEDIA_TYPE, renderProblem(problem, baseUrl, requestId))
      : respond(h, problem, 'text/html; charset=utf-8', page)
  })
}

/** Returns the request id of the gateway, so that both processes log the same id; a new id if there is no valid one. */
export function requestIdOf({ headers }: Request): string {
  const sentId = headers['x-request-id']
  return typeof sentId === 'string' && /^[A-Za-z0-9._-]{1,64}$/.test(sentId)
    ? sentId
    : createId('req')
}

function respond(h: ResponseToolkit, problem: Problem, type: string, document: string) {
  const response = h
    .response(document)
    .code(problem.status)
    .type(type)
    .header('cache-control', 'no-store')
  // usage/counted-calls.ts reads the code to count the errors of each key.
  response.app.problemCode = problem.code
  for (const [name, value] of Object.entries(problem.headers)) response.header(name, value)
  return response
}

/** Whether hapi found no route. A `Problem` with 404, which also becomes a Boom, comes from a handler. */
function isRouteMissing(error: Error): boolean {
  return !(error instanceof Problem) && error instanceof Boom && error.output.statusCode === 404
}

function problemOf(error: Error): Problem {
  if (error instanceof Problem) return error
  const code = error instanceof Boom ? CODES.get(error.output.statusCode) : undefined
  if (code === 'service_unavailable') {
    return temporarilyUnavailable('The service is overloaded. Repeat the call shortly.', {
      cause: error,
    })
  }
  if (code !== undefined) return new Problem(code, error.message, { cause: error })
  return new Problem('internal_error', 'Something went wrong on our side. It has been logged.', {
    cause: error,
  })
}
