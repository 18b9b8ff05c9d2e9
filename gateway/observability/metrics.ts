/** The gateway's numbers (docs/metrics.md): those of each call, and those its parts keep. */

import type { ProblemCode } from '../../shared/contract/problem.ts'
import type { Durations, Metrics } from '../../shared/process/metrics.ts'
import type { Bodies } from '../downstream/body.ts'
import type { Listener } from '../downstream/listener.ts'
import type { Authenticator } from '../keys/authenticate.ts'
import type { Accounting } from '../rate-limit/limiter.ts'
import type { Upstream } from '../upstream/backends.ts'
import type { Forwarder } from '../upstream/forward.ts'
import type { CallStory } from './call-record.ts'

export interface CallNumbers {
  note(story: CallStory, status: number, ms: number): void
  /** What was refused before it was a call. */
  noteRefused(status: number, code: ProblemCode): void
}

/** Looked up once, so that a call does not put labels together. */
interface OperationNumbers {
  readonly duration: Durations
  readonly upstream: Durations
  readonly byStatus: Map<number, number>
}

export function createCallNumbers(metrics: Metrics): CallNumbers {
  const durations = metrics.histogram(
    'receivables_gateway_call_duration_seconds',
    'From the head of a request to the end of its answer.',
    ['operation'],
  )
  const upstreamDurations = metrics.histogram(
    'receivables_gateway_upstream_duration_seconds',
    'What the backend took of it, repeats included.',
    ['operation'],
  )
  const refusals = metrics.counter(
    'receivables_gateway_refusals_total',
    'Problems that the gateway answered itself.',
    ['status', 'code'],
  )
  const known = new Map<string, OperationNumbers>()
  metrics.total(
    'receivables_gateway_calls_total',
    'Calls answered, by operation and status; 499: the client went away.',
    () =>
      [...known].flatMap(([operation, { byStatus }]) =>
        [...byStatus].map(([status, calls]) => [operation, String(status), calls] as const),
      ),
    { labels: ['operation', 'status'] },
  )

  function numbersOf(operation: string): OperationNumbers {
    const found = known.get(operation)
    if (found !== undefined) return found
    const numbers = {
      duration: durations.of(operation),
      upstream: upstreamDurations.of(operation),
      byStatus: new Map(),
    }
    known.set(operation, numbers)
    return numbers
  }

  return {
    note({ operation, upstreamMs, code }, status, ms) {
      const numbers = numbersOf(operation?.operationId ?? 'none')
      count(numbers, status)
      numbers.duration.observe(ms / 1000)
      if (upstreamMs > 0) numbers.upstream.observe(upstreamMs / 1000)
      if (code !== undefined) refusals.inc({ status, code })
    },
    noteRefused(status, code) {
      count(numbersOf('none'), status)
      refusals.inc({ status, code })
    },
  }
}

function count({ byStatus }: OperationNumbers, status: number): void {
  byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
}

export interface GatewayParts {
  readonly authenticator: Authenticator
  readonly upstream: Upstream
  readonly forwarder: Forwarder
  readonly bodies: Bodies
  readonly gateway: Listener
  /** Of the certificate in use, Unix time in milliseconds; undefined without TLS. */
  certificateExpiresAt(): number | undefined
}

/** Reads the parts at each scrape. */
export function measureParts(metrics: Metrics, parts: GatewayParts): void {
  const { gateway, bodies, certificateExpiresAt } = parts
  measureKeys(metrics, parts)
  measureUpstream(metrics, parts)
  metrics.gauge(
    'receivables_gateway_body_bytes',
    'Memory that request bodies take.',
    () => bodies.bytesHeld,
  )
  metrics.gauge(
    'receivables_gateway_connections',
    'Open connections of clients.',
    () => gateway.connections,
  )
  if (certificateExpiresAt() === undefined) return
  metrics.gauge(
    'receivables_gateway_tls_certificate_expires_seconds',
    'When the certificate in use ends, in Unix time.',
    () => Number(certificateExpiresAt()) / 1000,
    { gathering: 'min' },
  )
}

function measureKeys(metrics: Metrics, { authenticator }: GatewayParts): void {
  metrics.total(
    'receivables_gateway_key_cache_requests_total',
    'Calls by what was remembered of their key.',
    () => {
      const { hits, misses, refusals } = authenticator.counts()
      return [
        ['hit', hits],
        ['miss', misses],
        ['refused', refusals],
      ]
    },
    { labels: ['result'] },
  )
  metrics.gauge(
    'receivables_gateway_key_cache_entries',
    'Keys remembered.',
    () => [
      ['known', authenticator.counts().known],
      ['refused', authenticator.counts().refused],
    ],
    { labels: ['kind'] },
  )
  metrics.total(
    'receivables_gateway_key_lookups_total',
    'Look-ups of keys, by how they ended.',
    () => Object.entries(authenticator.counts().lookUps),
    { labels: ['outcome'] },
  )
  metrics.gauge(
    'receivables_gateway_key_lookups_in_flight',
    'Look-ups of keys under way.',
    () => authenticator.counts().inFlight,
  )
  metrics.gauge(
    'receivables_gateway_key_lookups_waiting',
    'Look-ups of keys never seen that wait in line.',
    () => authenticator.counts().waiting,
  )
}

function measureUpstream(metrics: Metrics, { upstream, forwarder }: GatewayParts): void {
  metrics.gauge(
    'receivables_gateway_upstream_ready',
    'Whether the readiness probe of the backend succeeds.',
    () => upstream.backends().map(({ url, ready }) => [url, ready ? 1 : 0]),
    { labels: ['backend'], gathering: 'min' },
  )
  metrics.gauge(
    'receivables_gateway_upstream_in_flight',
    'Requests that wait for a connection, an answer or its end.',
    () => upstream.backends().map(({ url, inFlight }) => [url, inFlight]),
    { labels: ['backend'] },
  )
  metrics.gauge(
    'receivables_gateway_upstream_connections',
    'Open connections to the backend.',
    () =>
      upstream.backends().flatMap(({ url, pool, ownPool }) => {
        const connected = pool.stats.connected + ownPool.stats.connected
        const free = pool.stats.free + ownPool.stats.free
        return [[url, 'busy', connected - free] as const, [url, 'idle', free] as const]
      }),
    { labels: ['backend', 'state'] },
  )
  metrics.total(
    'receivables_gateway_upstream_failures_total',
    'Failed attempts, by backend and kind.',
    () =>
      [...forwarder.failures].flatMap(([url, kinds]) => [...kinds].map((kind) => [url, ...kind])),
    { labels: ['backend', 'kind'] },
  )
  metrics.total(
    'receivables_gateway_upstream_retries_total',
    'Attempts that repeated a lost one.',
    () => forwarder.retries,
  )
}

/** Gives where the times of spends go. */
export function measureRedis(metrics: Metrics, accounting: () => Accounting): Durations {
  metrics.gauge(
    'receivables_gateway_redis_up',
    'Whether the rate limit is shared by way of Redis.',
    () => (accounting().state() === 'exact' ? 1 : 0),
    { gathering: 'min' },
  )
  metrics.total(
    'receivables_gateway_redis_outages_total',
    'How often Redis went away.',
    () => accounting().counts.outages,
  )
  metrics.total(
    'receivables_gateway_local_admissions_total',
    'Calls counted in the process while Redis was away.',
    () => accounting().counts.localAdmissions,
  )
  const spends = metrics.histogram(
    'receivables_gateway_redis_spend_duration_seconds',
    'One script call, which spends the calls of one turn.',
  )
  return spends.of()
}
