/** `npm run gateway`: composes the process from its settings. */
import { loadContract } from '../shared/contract.ts'
import { runProcess } from '../shared/lifecycle.ts'
import { type Health, listenForOperations } from '../shared/operations.ts'
import type { Accounting } from './accounting.ts'
import { createLocalAccounting } from './accounting-local.ts'
import { RedisAccounting } from './accounting-redis.ts'
import { createAuthenticator } from './authenticate.ts'
import { GATEWAY_SETTINGS } from './config.ts'
import { createForwarder } from './forward.ts'
import { createGateway } from './server.ts'
import { createPagesProxy } from './settings-proxy.ts'
import { BackendPools, type Upstream } from './upstream.ts'
import { createUsage } from './usage.ts'

/** A flood of unknown keys shares these; calls of known ones have their own. */
const STRANGERS_CONNECTIONS = 8

await runProcess({
  name: 'gateway',
  description: 'The public gateway: keys, scopes, rate limit, forwarding.',
  schema: GATEWAY_SETTINGS,
  prefix: 'GATEWAY_',
  async start(settings, log) {
    const { BACKEND_URLS: urls, GATEWAY_SECRET: gatewaySecrets, BASE_URL: baseUrl } = settings
    const timeoutMs = settings.GATEWAY_UPSTREAM_TIMEOUT_MS
    const connections = settings.BACKEND_CONNECTIONS
    const shared = { urls, gatewaySecrets, timeoutMs, log }
    const upstream = new BackendPools({ ...shared, connections })
    const strangersUpstream = new BackendPools({ ...shared, connections: STRANGERS_CONNECTIONS })
    const accounting =
      settings.REDIS_URL === undefined
        ? createLocalAccounting()
        : new RedisAccounting({
            url: settings.REDIS_URL,
            onOutage: settings.RATE_LIMIT_ON_REDIS_OUTAGE,
            log,
          })
    const usage = createUsage(upstream, log)
    const gateway = createGateway({
      contract: loadContract(),
      baseUrl,
      authenticator: createAuthenticator({ upstream, strangersUpstream }),
      accounting,
      forwarder: createForwarder({
        upstream,
        timeoutMs,
        streamsMax: Math.ceil(connections / 2),
        log,
      }),
      pages:
        settings.SETTINGS_PAGES === 'on'
          ? createPagesProxy({
              upstream,
              gatewaySecrets,
              timeoutMs,
              trustedProxies: settings.TRUST_PROXY,
            })
          : undefined,
      usage,
      requestTimeoutMs: settings.GATEWAY_REQUEST_TIMEOUT_MS,
      answerTimeoutMs: settings.GATEWAY_ANSWER_TIMEOUT_MS,
      log,
    })
    let draining = false
    const operations = await listenForOperations(
      { host: settings.GATEWAY_OPERATIONS_HOST, port: settings.GATEWAY_OPERATIONS_PORT },
      async () => healthOf(upstream, accounting, draining),
    )
    const port = await gateway.listen(settings.GATEWAY_PORT, settings.GATEWAY_HOST)
    return {
      listening: { port, operations_port: operations.port },
      async drain() {
        draining = true
        await gateway.drain()
        await usage.close()
        await Promise.all([upstream.close(), strangersUpstream.close(), accounting.close()])
        await operations.close()
      },
    }
  },
})

/** A later outage is no reason to be left out: a balancer that removes every gateway helps nobody. */
function healthOf(upstream: Upstream, accounting: Accounting, draining: boolean): Health {
  const outages: string[] = []
  if (upstream.state() !== 'ready') outages.push('no backend is ready')
  if (accounting.state() !== 'exact') outages.push('redis is away: the rate limit is not shared')
  const starting = upstream.state() === 'starting' || accounting.state() === 'starting'
  if (draining) return { unready: ['draining'], degraded: outages }
  return starting ? { unready: outages, degraded: [] } : { unready: [], degraded: outages }
}
