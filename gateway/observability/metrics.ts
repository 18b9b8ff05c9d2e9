/** The gateway's metrics, see docs/metrics.md. */
import type { Agent } from 'node:http'
import { type ProblemCode, problemType } from '../../shared/contract/problem.ts'
import type { Durations, Metrics } from '../../shared/process/metrics.ts'
import type { Budget } from '../budget/budget.ts'
import type { CallRecord } from '../call/call-record.ts'
import type { Authenticator } from '../keys/authenticator.ts'
import type { PagesProxy } from '../pages/proxy.ts'
import type { RateLimiter } from '../rate-limit/limiter.ts'
import type { Backends } from '../upstream/backends.ts'
import type { Forwarder } from '../upstream/forward.ts'
import type { UsageReporter } from './usage-reporter.ts'

export interface CallMetrics {
  /** `ms` is the time from the head of the request to the end of the response. */
  record(call: CallRecord, status: number, ms: number): void
  /** Records that the received bytes are not a valid request, or that a request did not arrive in time. */
  recordInvalidRequest(status: number, code: ProblemCode): void
}

/** The metrics of one operation. They are created once, because building labels for each call is expensive. */
interface OperationMetrics {
  readonly duration: Durations
  readonly upstream: Durations
  readonly byStatus: Map<number, number>
}

export function createCallMetrics(metrics: Metrics): CallMetrics {
  const durations = metrics.histogram(
    'receivables_gateway_call_duration_seconds',
    'The time from the head of a request to the end of its response.',
    ['operation'],
  )
  const upstreamDurations = metrics.histogram(
    'receivables_gateway_upstream_duration_seconds',
    'The total duration of the attempts of a call at backends.',
    ['operation'],
  )
  const rejections = new Map<ProblemCode, number>()
  metrics.total(
    'receivables_gateway_refusals_total',
    'Calls that the gateway itself rejected, by status and code.',
    () => [...rejections].map(([code, calls]) => [String(problemType(code).status), code, calls]),
    { labels: ['status', 'code'] },
  )
  const byOperation = new Map<string, OperationMetrics>()
  metrics.total(
    'receivables_gateway_calls_total',
    'Finished calls, by operation and status; 499: the connection was closed before the response.',
    () =>
      [...byOperation].flatMap(([operation, { byStatus }]) =>
        [...byStatus].map(([status, calls]) => [operation, String(status), calls] as const),
      ),
    { labels: ['operation', 'status'] },
  )

  function metricsOf(operation: string): OperationMetrics {
    const found = byOperation.get(operation)
    if (found !== undefined) return found
    const created = {
      duration: durations.of(operation),
      upstream: upstreamDurations.of(operation),
      byStatus: new Map(),
    }
    byOperation.set(operation, created)
    return created
  }

  return {
    record({ operation, upstreamMs, code }, status, ms) {
      const operationMetrics = metricsOf(operation?.operationId ?? 'none')
      count(operationMetrics.byStatus, status)
      operationMetrics.duration.observe(ms / 1000)
      if (upstreamMs > 0) operationMetrics.upstream.observe(upstreamMs / 1000)
      if (code !== undefined) count(rejections, code)
    },
    recordInvalidRequest(status, code) {
      count(metricsOf('none').byStatus, status)
      count(rejections, code)
    },
  }
}

function count<Kind>(calls: Map<Kind, number>, kind: Kind): void {
  calls.set(kind, (calls.get(kind) ?? 0) + 1)
}

export interface GatewayComponents {
  readonly authenticator: Authenticator
  readonly backends: Backends
  readonly forwarder: Forwarder
  readonly pages: Pick<PagesProxy, 'waitingPages'>
  readonly usage: Pick<UsageReporter, 'rejectedReports'>
  readonly budget: Budget
  /** When the certificate in use expires, in milliseconds since the epoch; undefined without TLS. */
  certificateExpiresAt(): number | undefined
}

export function registerMetrics(metrics: Metrics, components: GatewayComponents): void {
  const { budget, usage, certificateExpiresAt } = components
  registerKeyMetrics(metrics, components)
  registerUpstreamMetrics(metrics, components)
  registerBudgetMetrics(metrics, budget)
  metrics.total(
    'receivables_gateway_usage_reports_rejected_total',
    'Usage reports that a backend did not accept and that the gateway has dropped.',
    () => usage.rejectedReports,
  )
  if (certificateExpiresAt() === undefined) return
  metrics.gauge(
    'receivables_gateway_tls_certificate_expires_seconds',
    'When the certificate in use expires, in Unix time.',
    () => Number(certificateExpiresAt()) / 1000,
    { aggregator: 'min' },
  )
}

function registerBudgetMetrics(metrics: Metrics, budget: Budget): void {
  metrics.gauge(
    'receivables_gateway_client_memory_bytes',
    'Memory for requests in progress and for responses that clients have not received yet. Calls whose API key is cached are counted as known, all other calls as unknown.',
    () => [
      ['known', budget.bytesOf('known')],
      ['unknown', budget.bytesOf('unknown')],
    ],
    { labels: ['key'] },
  )
  metrics.gauge(
    'receivables_gateway_connections',
    'Open connections of clients, including those in their TLS handshake.',
    () => budget.connections.size,
  )
  metrics.gauge(
    'receivables_gateway_handshakes',
    'Connections in their TLS handshake.',
    () => budget.handshakes,
  )
  metrics.total(
    'receivables_gateway_evictions_total',
    'Connections that were closed or refused, requests that were not read to the end, and responses that were not sent to the end, because a limit was reached, by limit.',
    () => Object.entries(budget.evicted),
    { labels: ['limit'] },
  )
}

function registerKeyMetrics(metrics: Metrics, { authenticator }: GatewayComponents): void {
  metrics.total(
    'receivables_gateway_key_cache_requests_total',
    'Calls by the result of the key cache.',
    () => {
      const { hits, misses, negativeHits } = authenticator.counts()
      return [
        ['hit', hits],
        ['miss', misses],
        ['refused', negativeHits],
      ]
    },
    { labels: ['result'] },
  )
  metrics.gauge(
    'receivables_gateway_key_cache_entries',
    'Entries of the key cache and of the negative cache.',
    () => [
      ['known', authenticator.counts().known],
      ['refused', authenticator.counts().negativeEntries],
    ],
    { labels: ['kind'] },
  )
  metrics.total(
    'receivables_gateway_key_lookups_total',
    'Finished key look-ups, by outcome.',
    () => Object.entries(authenticator.counts().lookUps),
    { labels: ['outcome'] },
  )
  metrics.gauge(
    'receivables_gateway_key_lookups_in_flight',
    'Key look-ups in progress.',
    () => authenticator.counts().inFlight,
  )
  metrics.gauge(
    'receivables_gateway_key_lookups_waiting',
    'Queued look-ups of unknown keys.',
    () => authenticator.counts().queuedLookUps,
  )
}

function registerUpstreamMetrics(metrics: Metrics, components: GatewayComponents): void {
  const { backends, forwarder, pages } = components
  metrics.gauge(
    'receivables_gateway_upstream_ready',
    'Whether the readiness probe of the backend succeeds.',
    () => backends.statuses().map(({ url, ready }) => [url, ready ? 1 : 0]),
    { labels: ['backend'], aggregator: 'min' },
  )
  metrics.gauge(
    'receivables_gateway_upstream_ejected',
    'Whether the backend is ejected, or gets one trial request at a time, because it failed far more often than the others.',
    () => backends.statuses().map(({ url, health }) => [url, health === 'healthy' ? 0 : 1]),
    { labels: ['backend'] },
  )
  metrics.total(
    'receivables_gateway_upstream_ejections_total',
    'How often the backend was ejected because it failed far more often than the others.',
    () => [...backends.ejections],
    { labels: ['backend'] },
  )
  metrics.gauge(
    'receivables_gateway_upstream_in_flight',
    'Requests that wait for a connection, or whose response is not complete.',
    () => backends.statuses().map(({ url, inFlight }) => [url, inFlight]),
    { labels: ['backend'] },
  )
  metrics.gauge(
    'receivables_gateway_upstream_connections',
    'Open connections to the backend.',
    () =>
      backends.statuses().flatMap(({ url, pools, agent }) => {
        const stats = Object.values(pools).map((pool) => pool.stats)
        const connected = stats.reduce((sum, pool) => sum + pool.connected, 0)
        const idle = stats.reduce((sum, pool) => sum + pool.idle, 0)
        const busy = connected - idle + countSockets(agent.sockets)
        return [
          [url, 'busy', busy] as const,
          [url, 'idle', idle + countSockets(agent.freeSockets)] as const,
        ]
      }),
    { labels: ['backend', 'state'] },
  )
  metrics.gauge(
    'receivables_gateway_calls_waiting',
    'Calls that wait for a connection to a backend. They do not count against the rate limit yet.',
    () => forwarder.waitingCalls,
  )
  metrics.gauge(
    'receivables_gateway_pages_waiting',
    'Page requests that wait because the maximum number of pages is being loaded.',
    () => pages.waitingPages,
  )
  metrics.total(
    'receivables_gateway_calls_shed_total',
    'Calls shed with 503 because they waited, or were expected to wait, too long for a connection. They do not count against the rate limit.',
    () => forwarder.shedCalls,
  )
  metrics.total(
    'receivables_gateway_upstream_failures_total',
    'Failed attempts, by backend and kind.',
    () =>
      [...forwarder.failures].flatMap(([url, kinds]) =>
        [...kinds].map(([kind, attempts]) => [url, kind, attempts]),
      ),
    { labels: ['backend', 'kind'] },
  )
  metrics.total(
    'receivables_gateway_upstream_retries_total',
    'Retries of failed attempts.',
    () => forwarder.retries,
  )
}

function countSockets(sockets: Agent['sockets']): number {
  return Object.values(sockets).reduce((sum, list = []) => sum + list.length, 0)
}

/** Returns the histogram of the durations of successful runs of `consume.lua`. */
export function registerRedisMetrics(metrics: Metrics, rateLimiter: () => RateLimiter): Durations {
  metrics.gauge(
    'receivables_gateway_redis_up',
    '1 while all calls are counted in Redis; 0 while Redis, or any master of a Redis Cluster, is unavailable.',
    () => (rateLimiter().state() === 'exact' ? 1 : 0),
    { aggregator: 'min' },
  )
  metrics.total(
    'receivables_gateway_redis_outages_total',
    'How often Redis, or one master of a Redis Cluster, became unavailable.',
    () => rateLimiter().counts.outages,
  )
  metrics.total(
    'receivables_gateway_local_admissions_total',
    'Calls counted by this gateway alone while Redis was unavailable.',
    () => rateLimiter().counts.callsCountedLocally,
  )
  metrics.total(
    'receivables_gateway_redis_counters_replaced_total',
    'Counters of API keys in Redis that had another type or an impossible value, and were replaced.',
    () => rateLimiter().counts.countersReplaced,
  )
  const durations = metrics.histogram(
    'receivables_gateway_redis_spend_duration_seconds',
    'The time until Redis replied to a successful run of consume.lua, which counts calls that arrived at the same time.',
  )
  return durations.of()
}
