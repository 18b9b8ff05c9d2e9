/** `npm run gateway`: composes the process from its settings. */
import cluster from 'node:cluster'
import { loadContract } from '../shared/contract/contract.ts'
import { type Running, runProcess } from '../shared/process/lifecycle.ts'
import type { Logger } from '../shared/process/log.ts'
import { createMetrics, type Metrics } from '../shared/process/metrics.ts'
import { type Health, listenForOperations } from '../shared/process/operations.ts'
import { SettingsError, type SettingsOf } from '../shared/process/settings.ts'
import { startTracing } from '../shared/process/tracing.ts'
import { GATEWAY_SETTINGS } from './config.ts'
import { Bodies } from './downstream/body.ts'
import { type Certificate, expiryWarning, readCertificate } from './downstream/certificate.ts'
import { Authenticator } from './keys/authenticate.ts'
import { createAccess } from './observability/access-log.ts'
import { createCallNumbers, measureParts, measureRedis } from './observability/metrics.ts'
import { createUsage } from './observability/usage.ts'
import { createPagesProxy } from './pages/proxy.ts'
import { createGateway } from './pipeline/pipeline.ts'
import type { Accounting } from './rate-limit/limiter.ts'
import { createLocalAccounting } from './rate-limit/local.ts'
import { RedisAccounting } from './rate-limit/redis.ts'
import { watchBackendAddresses } from './upstream/addresses.ts'
import { BackendPools, type Upstream } from './upstream/backends.ts'
import { createForwarder } from './upstream/forward.ts'
import { superviseWorkers } from './workers.ts'

type Settings = SettingsOf<typeof GATEWAY_SETTINGS>

/** A flood of unknown keys shares these; calls of known ones have their own. */
const STRANGERS_CONNECTIONS = 8

await runProcess({
  name: 'gateway',
  description: 'The public gateway: keys, scopes, rate limit, forwarding.',
  schema: GATEWAY_SETTINGS,
  prefix: 'GATEWAY_',
  reloadable: ['GATEWAY_SECRET', 'TLS_CERT', 'TLS_KEY'],
  check({ TLS_CERT, TLS_KEY, GATEWAY_WORKERS, REDIS_URL }) {
    if (GATEWAY_WORKERS > 1 && REDIS_URL === undefined) {
      throw new SettingsError([
        `GATEWAY_WORKERS is ${GATEWAY_WORKERS}: more than one worker counts in Redis, set REDIS_URL`,
      ])
    }
    const certificate = readCertificate(TLS_CERT, TLS_KEY)
    if (certificate === undefined) return []
    const end = new Date(certificate.expiresAt).toISOString()
    return [`The certificate is for ${certificate.names}, until ${end}.`]
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
  const { BASE_URL: baseUrl } = settings
  // Everybody holds this one: a reload replaces what is in it.
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
  const timeoutMs = settings.GATEWAY_UPSTREAM_TIMEOUT_MS
  const connections = settings.BACKEND_CONNECTIONS
  const backends = connectBackends(settings, gatewaySecrets, log)
  const { upstream, strangersUpstream } = backends
  const accounting = createAccounting(settings, metrics, log)
  const usage = createUsage(upstream, accounting, log)
  const authenticator = new Authenticator({ upstream, strangersUpstream })
  const streamsMax = Math.ceil(connections / 2)
  const forwarder = createForwarder({ upstream, timeoutMs, streamsMax, log })
  const bodies = new Bodies()
  const trustedProxies = settings.TRUST_PROXY
  const numbers = createCallNumbers(metrics)
  const lines = settings.ACCESS_LOG === 'on'
  const access = createAccess({ log, lines, numbers, tracing, trustedProxies })
  const servesPages = settings.SETTINGS_PAGES === 'on'
  const forwarding = { upstream, gatewaySecrets, timeoutMs }
  const pages = createPagesProxy({ ...forwarding, trustedProxies, servesPages })
  const gateway = createGateway({
    contract: loadContract(),
    baseUrl,
    tls: certificate,
    bodies,
    authenticator,
    accounting,
    forwarder,
    pages,
    usage,
    access,
    tracing,
    requestTimeoutMs: settings.GATEWAY_REQUEST_TIMEOUT_MS,
    answerTimeoutMs: settings.GATEWAY_ANSWER_TIMEOUT_MS,
    log,
  })
  const certificateExpiresAt = () => certificate?.expiresAt
  const parts = { authenticator, upstream, forwarder, bodies, gateway, certificateExpiresAt }
  measureParts(metrics, parts)
  let draining = false
  const operations = await listenForOperations({
    host: settings.GATEWAY_OPERATIONS_HOST,
    port: settings.GATEWAY_OPERATIONS_PORT,
    metrics,
    log,
    health: async () => healthOf(upstream, accounting, certificate, draining),
  })
  const port = await gateway.listen(settings.GATEWAY_PORT, settings.GATEWAY_HOST)
  return {
    listening: { port, operations_port: operations.port },
    reload(fresh) {
      const renewed = readCertificate(fresh.TLS_CERT, fresh.TLS_KEY)
      if (renewed !== undefined) gateway.renewTls(renewed)
      certificate = renewed
      gatewaySecrets.splice(0, gatewaySecrets.length, ...fresh.GATEWAY_SECRET)
    },
    async drain() {
      draining = true
      await gateway.drain()
      await usage.close()
      await Promise.all([backends.close(), accounting.close()])
      await tracing?.close()
      await operations.close()
    },
  }
}

function connectBackends(settings: Settings, gatewaySecrets: readonly string[], log: Logger) {
  const addresses = watchBackendAddresses({ urls: settings.BACKEND_URLS, log })
  const timeoutMs = settings.GATEWAY_UPSTREAM_TIMEOUT_MS
  const shared = { addresses, gatewaySecrets, timeoutMs, log }
  const upstream = new BackendPools({ ...shared, connections: settings.BACKEND_CONNECTIONS })
  const strangersUpstream = new BackendPools({
    ...shared,
    connections: STRANGERS_CONNECTIONS,
    // The same backends: what is to be said of them is said once.
    log: log.child({}, { level: 'silent' }),
  })
  return {
    upstream,
    strangersUpstream,
    async close(): Promise<void> {
      addresses.close()
      await Promise.all([upstream.close(), strangersUpstream.close()])
    },
  }
}

function createAccounting(settings: Settings, metrics: Metrics, log: Logger): Accounting {
  if (settings.REDIS_URL === undefined) return createLocalAccounting()
  const accounting: Accounting = new RedisAccounting({
    address: settings.REDIS_URL,
    tls: {
      ca: settings.REDIS_TLS_CA,
      cert: settings.REDIS_TLS_CERT,
      key: settings.REDIS_TLS_KEY,
    },
    onOutage: settings.RATE_LIMIT_ON_REDIS_OUTAGE,
    log,
    durations: measureRedis(metrics, () => accounting),
  })
  return accounting
}

/** A later outage is no reason to be left out: a balancer that removes every gateway helps nobody. */
function healthOf(
  upstream: Upstream,
  accounting: Accounting,
  certificate: Certificate | undefined,
  draining: boolean,
): Health {
  const outages: string[] = []
  if (upstream.state() !== 'ready') outages.push('no backend is ready')
  for (const { url, ready, reason } of upstream.backends()) {
    if (!ready) outages.push(`backend ${url} is not ready: ${reason}`)
  }
  const expiry = certificate && expiryWarning(certificate, Date.now())
  if (expiry !== undefined) outages.push(expiry)
  const outage = accounting.outage()
  if (outage !== undefined) outages.push(`redis is away: the rate limit is not shared (${outage})`)
  const starting = upstream.state() === 'starting' || accounting.state() === 'starting'
  if (draining) return { unready: ['draining'], degraded: outages }
  return starting ? { unready: outages, degraded: [] } : { unready: [], degraded: outages }
}
