/** What is told of each request once it is answered: numbers, and a span where traces are wanted. */
import type { Request, Server } from '@hapi/hapi'
import type { Problem } from '../../shared/contract/problem.ts'
import { continueTrace } from '../../shared/process/trace.ts'
import type { Span, Tracing } from '../../shared/process/tracing.ts'
import { requestIdOf } from './problem-responses.ts'

/** Everything beside the API, by the first part of its path. */
const AREAS = new Set(['docs', 'internal', 'mail', 'settings'])
/** The gateway went away before the answer. */
const CLIENT_GONE = 499

export interface RequestNumbers {
  note(operation: string, status: number, seconds: number): void
  noteProblem(problem: Problem): void
}

export interface RequestsOptions {
  readonly numbers: RequestNumbers
  readonly tracing: Tracing | undefined
}

/** To be called before anything else looks at requests. */
export function observeRequests(server: Server, { numbers, tracing }: RequestsOptions): void {
  // hapi's own times are whole milliseconds.
  const arrivals = new WeakMap<Request, number>()
  server.ext('onRequest', (request, h) => {
    arrivals.set(request, performance.now())
    return h.continue
  })
  server.events.on('response', (request) => {
    const to = performance.now()
    const from = arrivals.get(request) ?? to
    const status = statusOf(request)
    numbers.note(operationOf(request), status, (to - from) / 1000)
    if (tracing === undefined) return
    const { traceparent, tracestate } = request.headers
    // Traces begin at gateways: what they ask for themselves, e.g. every second, is none.
    const trace = continueTrace(asText(traceparent), asText(tracestate))
    if (trace !== undefined) tracing.record(trace, spanOf(request, status, from, to), [])
  })
}

function statusOf({ response }: Request): number {
  if (response === null) return CLIENT_GONE
  return response instanceof Error ? response.output.statusCode : response.statusCode
}

function operationOf({ route }: Request): string {
  const { app } = route.settings
  if (app !== undefined && 'operationId' in app) return String(app.operationId)
  const area = route.path.split('/', 2)[1] ?? ''
  return AREAS.has(area) ? area : 'none'
}

function spanOf(request: Request, status: number, from: number, to: number): Span {
  const method = request.method.toUpperCase()
  const { path } = request.route
  return {
    name: `${method} ${path}`,
    kind: 'server',
    from,
    to,
    failed: status >= 500,
    attributes: {
      'http.request.method': method,
      'http.route': path,
      'http.response.status_code': status,
      'receivables.request_id': requestIdOf(request),
    },
  }
}

function asText(header: unknown): string | undefined {
  return typeof header === 'string' ? header : undefined
}
