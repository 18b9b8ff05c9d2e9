/**
 * The listener for operators: liveness, readiness, metrics, log level. It has a port of its own, so that it
 * stays reachable under overload and can be kept private.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createCollapsingLog } from './collapsing-log.ts'
import { isLogLevel, LOG_LEVELS, type Logger, type LogLevel } from './log.ts'
import { cachedFor, type Metrics } from './metrics.ts'

/** Health is cached for metrics, so that all health metrics of one scrape come from a single health check. */
const HEALTH_CACHED_MS = 1_000
/** Longer than any log level. The listener uses no other body. */
const BODY_BYTES_MAX = 64

export interface Health {
  /** Why the process does not accept calls; empty if it accepts them. */
  readonly unready: readonly string[]
  /** What does not work while calls are still accepted, e.g. writes to a full disk. */
  readonly degraded: readonly string[]
}

export interface OperationsListener {
  readonly port: number
  close(): Promise<void>
}

export interface OperationsListenerOptions {
  readonly host: string
  /** 0 chooses a free port. */
  readonly port: number
  readonly metrics: Metrics
  readonly log: Logger
  health(): Promise<Health>
  /** Called after the log level of this process was set. A supervisor sets it in its workers too. */
  onLogLevel?(level: LogLevel): Promise<void>
}

/** Resolves when the listener accepts connections. */
export async function startOperationsListener(
  options: OperationsListenerOptions,
): Promise<OperationsListener> {
  const { host, port, metrics } = options
  const collapsingLog = createCollapsingLog(options.log)
  registerHealthMetrics(metrics, cachedFor(HEALTH_CACHED_MS, options.health))
  const server = createServer((request, response) => {
    serve(request, response, options).catch((err: unknown) => {
      // The client closed its connection while it was sending a log level.
      if (request.destroyed && !request.complete) return
      const { method, url } = request
      // Repeated errors are counted by URL. `serve` fails only at known URLs, so the number of counters is bounded.
      collapsingLog.error(
        `${url}`,
        { method, url, err },
        'request to the operations listener failed',
      )
      respond(response, 500, '')
    })
  })
  await new Promise<void>((resolve, reject) => {
    // Workers share the public port, but not their operations ports.
    server.once('error', reject).listen({ port, host, exclusive: true }, resolve)
  })
  // The address of a TCP listener has a port.
  const { port: boundPort } = server.address() as AddressInfo
  return {
    port: boundPort,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  options: OperationsListenerOptions,
): Promise<void> {
  const { health, metrics } = options
  const { method = '', url } = request
  if (url === '/log-level') return serveLogLevel(request, response, options)
  const isKnown = url === '/healthz' || url === '/readyz' || url === '/metrics'
  if (!isKnown) return respond(response, 404, '')
  if (method !== 'GET' && method !== 'HEAD') return rejectMethod(response, 'GET, HEAD')
  if (url === '/healthz') return respondJson(response, 200, { alive: true })
  if (url === '/metrics') {
    const { registry } = metrics
    // A supervisor requests JSON, and aggregates the metrics of its workers.
    if (request.headers.accept === 'application/json') {
      return respondJson(response, 200, await registry.getMetricsAsJSON())
    }
    return respond(response, 200, await registry.metrics(), registry.contentType)
  }
  const { unready, degraded } = await health()
  const ready = unready.length === 0
  respondJson(response, ready ? 200 : 503, { ready, reasons: unready, degraded })
}

/** Responds with the log level. PUT changes it until the process restarts: `curl -X PUT -d debug …/log-level`. */
async function serveLogLevel(
  request: IncomingMessage,
  response: ServerResponse,
  { log, onLogLevel }: OperationsListenerOptions,
): Promise<void> {
  if (request.method === 'PUT') {
    const level = await readText(request)
    if (!isLogLevel(level)) {
      return respond(response, 400, `The level must be one of ${LOG_LEVELS.join(', ')}.\n`)
    }
    const before = log.level
    // The line is logged even if the level before or after the change is higher than `info`.
    log.level = 'info'
    log.info({ before, after: level }, 'log level changed')
    log.level = level
    await onLogLevel?.(level)
  } else if (request.method !== 'GET' && request.method !== 'HEAD') {
    return rejectMethod(response, 'GET, HEAD, PUT')
  }
  respond(response, 200, `${log.level}\n`)
}

/** Reads the whole body but returns only its beginning, because leaving the loop early would close the connection. */
async function readText(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('latin1')) {
    if (text.length <= BODY_BYTES_MAX) text += chunk
  }
  return text.trim()
}

function registerHealthMetrics(metrics: Metrics, health: () => Promise<Health>): void {
  metrics.gauge(
    'receivables_ready',
    'Whether the process accepts calls, as /readyz reports it.',
    async () => ((await health()).unready.length === 0 ? 1 : 0),
    { aggregator: 'min' },
  )
  metrics.gauge(
    'receivables_degraded',
    'The number of reasons that /readyz lists as degraded.',
    async () => (await health()).degraded.length,
    { aggregator: 'max' },
  )
  metrics.gauge(
    'receivables_draining',
    'Whether the process is draining: it finishes its calls and accepts no more.',
    async () => ((await health()).unready.includes('draining') ? 1 : 0),
    { aggregator: 'max' },
  )
}

function rejectMethod(response: ServerResponse, allow: string): void {
  response.setHeader('allow', allow)
  respond(response, 405, '')
}

function respondJson(response: ServerResponse, status: number, body: unknown): void {
  respond(response, status, JSON.stringify(body), 'application/json')
}

function respond(
  response: ServerResponse,
  status: number,
  body: string,
  type = 'text/plain',
): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body)
}
