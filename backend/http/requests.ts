import type { Request, Server } from '@hapi/hapi'
import { continueTrace } from '../../shared/process/trace.ts'
import type { Span, Tracing } from '../../shared/process/tracing.ts'
import { requestIdOf } from './problem-responses.ts'

/** The first path segments of all routes outside the API. */
const AREAS = new Set(['docs', 'internal', 'mail', 'settings'])
/** nginx's status for a client that closed the connection before the response. Here, the client is the gateway. */
const CLIENT_GONE = 499

export interface RequestMetrics {
  record(operation: string, status: number, seconds: number): void
}

export interface RequestsOptions {
  readonly metrics: RequestMetrics
  readonly tracing: Tracing | undefined
}

/**
 * Call this before any other extension is registered, so that the measured time includes the work of all extensions.
 */
export function observeRequests(server: Server, { metrics, tracing }: RequestsOptions): void {
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
    metrics.record(operationOf(request), status, (to - from) / 1000)
    if (tracing === undefined) return
    const { traceparent, tracestate } = request.headers
    // Backends continue only the traces of gateways. Internal requests of gateways, e.g. health checks, have no
    // trace.
    const trace = continueTrace(asText(traceparent), asText(tracestate))
    if (trace === undefined) return
    // The backend records no spans within a request.
    tracing.record(trace, spanOf(request, status, from, to), [])
  })
}

function statusOf({ response }: Request): number {
  if (response === null) return CLIENT_GONE
  return response instanceof Error ? response.output.statusCode : response.statusCode
}

/** Returns the id of an API operation; for other routes, their area; `none` if no route matches the request. */
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
