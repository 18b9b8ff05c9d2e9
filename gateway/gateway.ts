import cluster from 'node:cluster'
import { loadContract } from '../shared/contract/contract.ts'
import { type Running, runProcess } from '../shared/process/lifecycle.ts'
import type { Logger } from '../shared/process/log.ts'
import { createMetrics, type Metrics } from '../shared/process/metrics.ts'
import { type Health, startOperationsListener } from '../shared/process/operations-listener.ts'
import { SettingsError, type SettingsOf } from '../shared/process/settings.ts'
import { startTracing } from '../shared/process/tracing.ts'
import { Budget } from './budget/budget.ts'
import { clientConnectionsWithinFileLimit } from './budget/open-files.ts'
import { GATEWAY_SETTINGS } from './config.ts'
import { type Certificate, readCertificate, validityWarning } from './downstream/certificate.ts'
import { Authenticator } from './keys/authenticator.ts'
import { createAccessLog } from './observability/access-log.ts'
import {
  createCallMetrics,
  registerMetrics,
  registerRedisMetrics,
} from './observability/metrics.ts'
import { createUsageReporter } from './observability/usage-reporter.ts'
import { createPagesProxy } from './pages/proxy.ts'
import { createGateway } from './pipeline/pipeline.ts'
import type { RateLimiter } from './rate-limit/limiter.ts'
import { createLocalRateLimiter } from './rate-limit/local-limiter.ts'
import { OUTAGE_EFFECTS } from './rate-limit/outage-reason.ts'
import { describeRedis } from './rate-limit/redis-address.ts'
import { RedisRateLimiter } from './rate-limit/redis-limiter.ts'
import { type BackendAddresses, watchBackendAddresses } from './upstream/addresses.ts'
import { BackendSet, connectionsPerBackend } from './upstream/backend-set.ts'
import type { Backends } from './upstream/backends.ts'
import { createForwarder } from './upstream/forward.ts'
import { superviseWorkers } from './workers.ts'

const MIB = 1024 * 1024

type Settings = SettingsOf<typeof GATEWAY_SETTINGS>

await runProcess({
  name: 'gateway',
  description:
    'The public gateway: checks keys and scopes, enforces the rate limit, and forwards calls to backends.',
  schema: GATEWAY_SETTINGS,
  prefix: 'GATEWAY_',
  reloadable: ['GATEWAY_SECRET', 'TLS_CERT', 'TLS_KEY'],
  checkAndDescribe({ TLS_CERT, TLS_KEY, GATEWAY_WORKERS, REDIS_URL }) {
    if (GATEWAY_WORKERS > 1 && REDIS_URL === undefined) {
      throw new SettingsError([
        `GATEWAY_WORKERS is ${GATEWAY_WORKERS}, but REDIS_URL is not set. Workers need Redis to count calls together: set REDIS_URL`,
      ])
    }
    const notes: string[] = []
    if (REDIS_URL !== undefined) notes.push(`Redis is ${describeRedis(REDIS_URL)}.`)
    const certificate = readCertificate(TLS_CERT, TLS_KEY)
    if (certificate !== undefined) {
      const end = new Date(certificate.expiresAt).toISOString()
      notes.push(`The certificate covers ${certificate.names} and expires on ${end}.`)
    }
    return notes
  },
  start(settings, log) {
    if (settings.GATEWAY_WORKERS === 1 || cluster.isWorker) return startGateway(settings, log)
    return superviseWorkers({
      count: settings.GATEWAY_WORKERS,
      port: settings.GATEWAY_PORT,
      operationsHost: settings.GATEWAY_OPERATIONS_HOST,
      operationsPort: settings.GATEWAY_OPERATIONS_PORT,
      log,
    })
  },
})

async function startGateway(settings: Settings, log: Logger): Promise<Running<Settings>> {
  const { BASE_URL: baseUrl, TRUST_PROXY: trustedProxies } = settings
  // All components share this array: a reload replaces its elements.
  const gatewaySecrets = [...settings.GATEWAY_SECRET]
  const metrics = createMetrics('gateway')
  const tracing = await startTracing({
    endpoint: settings.OTEL_EXPORTER_OTLP_ENDPOINT,
    share: settings.OTEL_TRACES_SAMPLER_ARG,
    service: 'gateway',
    metrics,
    log,
  })
  let certificate = readCertificate(settings.TLS_CERT, settings.TLS_KEY)
  const { GATEWAY_UPSTREAM_TIMEOUT_MS: timeoutMs, GATEWAY_QUEUE_WAIT_MS: waitMs } = settings
  const connections = settings.BACKEND_CONNECTIONS
  const addresses = watchBackendAddresses({ urls: settings.BACKEND_URLS, log })
  const backends = new BackendSet({ addresses, gatewaySecrets, connections, timeoutMs, log })
  const rateLimiter = createRateLimiter(settings, metrics, log)
  const usage = createUsageReporter(backends, rateLimiter, log)
  const authenticator = new Authenticator(backends)
  // A slow client can occupy a connection to a backend with its streamed response. This is the maximum number of
  // streams from all backends together, so at least about half of the connections to each backend remain for other
  // calls.
  const streamsMax = Math.ceil(connections / 2)
  const forwarder = createForwarder({ backends, timeoutMs, waitMs, streamsMax, log })
  const budget = createBudget(settings, addresses, log)
  const callMetrics = createCallMetrics(metrics)
  const logsCalls = settings.ACCESS_LOG === 'on'
  const accessLog = createAccessLog({ log, logsCalls, callMetrics, tracing, trustedProxies })
  const forwarding = { baseUrl, backends, gatewaySecrets, timeoutMs, trustedProxies }
  const pages = createPagesProxy({ ...forwarding, servesPages: settings.SETTINGS_PAGES === 'on' })
  const listener = createGateway({
    contract: loadContract(),
    baseUrl,
    tls: certificate,
    budget,
    authenticator,
    rateLimiter,
    forwarder,
    pages,
    usage,
    trustedProxies,
    accessLog,
    tracing,
    requestTimeoutMs: settings.GATEWAY_REQUEST_TIMEOUT_MS,
    responseTimeoutMs: settings.GATEWAY_ANSWER_TIMEOUT_MS,
    bodyRateMin: settings.GATEWAY_BODY_RATE_MIN,
    connectionAgeMs: 1_000 * settings.GATEWAY_CONNECTION_AGE_S,
    log,
  })
  const components = { authenticator, backends, forwarder, pages, usage, budget }
  registerMetrics(metrics, { ...components, certificateExpiresAt: () => certificate?.expiresAt })
  let isDraining = false
  const operationsListener = await startOperationsListener({
    host: settings.GATEWAY_OPERATIONS_HOST,
    port: settings.GATEWAY_OPERATIONS_PORT,
    metrics,
    log,
    health: async () =>
      healthOf({ backends, rateLimiter, budget, certificate, settings }, isDraining),
  })
  const port = await listener.listen(settings.GATEWAY_PORT, settings.GATEWAY_HOST)
  return {
    listening: { port, operations_port: operationsListener.port },
    reload(fresh) {
      const renewed = readCertificate(fresh.TLS_CERT, fresh.TLS_KEY)
      if (renewed !== undefined) listener.renewTls(renewed)
      certificate = renewed
      gatewaySecrets.splice(0, gatewaySecrets.length, ...fresh.GATEWAY_SECRET)
    },
    async drain() {
      isDraining = true
      await listener.drain()
      await usage.close()
      addresses.close()
      backends.close()
      await rateLimiter.close()
      await tracing?.close()
      await operationsListener.close()
    },
  }
}

function createRateLimiter(settings: Settings, metrics: Metrics, log: Logger): RateLimiter {
  if (settings.REDIS_URL === undefined) return createLocalRateLimiter()
  const rateLimiter: RateLimiter = new RedisRateLimiter({
    address: settings.REDIS_URL,
    tls: {
      ca: settings.REDIS_TLS_CA,
      cert: settings.REDIS_TLS_CERT,
      key: settings.REDIS_TLS_KEY,
    },
    onOutage: settings.RATE_LIMIT_ON_REDIS_OUTAGE,
    log,
    durations: registerRedisMetrics(metrics, () => rateLimiter),
  })
  return rateLimiter
}

/**
 * If the limit on open files is too low for `GATEWAY_CONNECTIONS`, fewer connections are accepted: otherwise, clients
 * could use up all file descriptors, and the gateway could not connect to backends. The number of accepted connections
 * depends on the number of backends, which can change.
 */
function createBudget(settings: Settings, addresses: BackendAddresses, log: Logger): Budget {
  const { GATEWAY_CONNECTIONS, BACKEND_CONNECTIONS, BACKEND_URLS } = settings
  let connectionsMax = GATEWAY_CONNECTIONS
  function updateConnectionsMax(): void {
    const before = connectionsMax
    // A host name has no address before it is resolved, so at least one backend per URL is assumed.
    const backends = Math.max(BACKEND_URLS.length, addresses.current().length)
    const backendConnections = backends * connectionsPerBackend(BACKEND_CONNECTIONS)
    const allowed = clientConnectionsWithinFileLimit(backendConnections)
    connectionsMax = Math.min(GATEWAY_CONNECTIONS, allowed)
    if (connectionsMax >= before) return
    log.warn(
      { connections: connectionsMax, backends },
      'the limit on open files is too low for GATEWAY_CONNECTIONS; fewer connections are accepted',
    )
  }
  updateConnectionsMax()
  const limits = {
    connectionsMax,
    connectionsPerClientMax: settings.GATEWAY_CONNECTIONS_PER_CLIENT,
    bytesMax: settings.GATEWAY_CLIENT_MEMORY_MIB * MIB,
    bytesPerClientMax: settings.GATEWAY_MEMORY_PER_CLIENT_MIB * MIB,
  }
  const budget = new Budget(limits, log)
  addresses.onChange(() => {
    updateConnectionsMax()
    budget.setConnectionsMax(connectionsMax)
  })
  return budget
}

interface HealthSources {
  readonly backends: Backends
  readonly rateLimiter: RateLimiter
  readonly budget: Budget
  readonly certificate: Certificate | undefined
  readonly settings: Pick<Settings, 'RATE_LIMIT_ON_REDIS_OUTAGE'>
}

/**
 * After the gateway has started, an outage makes it degraded, not unready. Otherwise, load balancers would remove every
 * gateway during an outage of Redis or of the backends.
 */
function healthOf(
  { backends, rateLimiter, budget, certificate, settings }: HealthSources,
  isDraining: boolean,
): Health {
  const reasons = budget.reachedLimits()
  if (backends.state() !== 'ready') reasons.push('no backend is ready')
  for (const { url, ready, reason, health } of backends.statuses()) {
    if (!ready) reasons.push(`backend ${url} is not ready: ${reason}`)
    else if (health === 'ejected')
      reasons.push(`backend ${url} fails far more often than the others`)
  }
  const certificateWarning = certificate && validityWarning(certificate, Date.now())
  if (certificateWarning !== undefined) reasons.push(certificateWarning)
  const redisOutage = rateLimiter.outage()
  const effect = OUTAGE_EFFECTS[settings.RATE_LIMIT_ON_REDIS_OUTAGE]
  if (redisOutage !== undefined) reasons.push(`redis is unavailable: ${effect} (${redisOutage})`)
  const isStarting = backends.state() === 'starting' || rateLimiter.state() === 'starting'
  if (isDraining) return { unready: ['draining'], degraded: reasons }
  return isStarting ? { unready: reasons, degraded: [] } : { unready: [], degraded: reasons }
}
