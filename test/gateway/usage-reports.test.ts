import t from 'tap'
import { createUsageReporter } from '../../gateway/observability/usage-reporter.ts'
import { createLocalRateLimiter } from '../../gateway/rate-limit/local-limiter.ts'
import { watchBackendAddresses } from '../../gateway/upstream/addresses.ts'
import { BackendSet } from '../../gateway/upstream/backend-set.ts'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { USAGE_REPORT_ENTRIES_MAX } from '../../shared/contract/usage-report.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { SILENT } from '../fixtures/service/database.ts'
import { GATEWAY_SECRET, startGateway } from '../fixtures/service/gateway.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

// Regression: a draining gateway sent at most two reports, so Settings lacked the calls of keys that did not fit.
t.test('a gateway that drains reports the calls of all keys', async (t) => {
  const backend = await startCapturingBackend(t)
  const addresses = watchBackendAddresses({ urls: [backend.url], log: SILENT })
  const options = { addresses, gatewaySecrets: [GATEWAY_SECRET], timeoutMs: 30_000, log: SILENT }
  const backends = new BackendSet({ ...options, connections: 8 })
  const rateLimiter = createLocalRateLimiter()
  const usage = createUsageReporter(backends, rateLimiter, SILENT)
  t.teardown(() => {
    addresses.close()
    backends.close()
    return rateLimiter.close()
  })
  const keyIds = Array.from({ length: 2.5 * USAGE_REPORT_ENTRIES_MAX }, (_, n) => `key_${n}`)
  for (const keyId of keyIds) {
    const allowance = await rateLimiter.consume(keyId, 600)
    usage.record({ keyId, allowance, hasBackendResponse: false, code: 'route_not_found' }, 404)
  }
  await usage.close()
  for (const kind of ['refused', 'errors', 'windows'] as const) {
    const reported = backend.reports.flatMap((report) => report[kind].map(({ key_id }) => key_id))
    t.strictSame(reported.toSorted(), keyIds.toSorted(), `all keys are reported in ${kind}`)
  }
})

// Regression: the drain waited for two reports until their timeouts, and then failed.
t.test('a gateway drains although its backend hangs', async (t) => {
  const backend = await startRawBackend(t)
  const gateway = await startGateway(t, backend.url, {
    LOG_LEVEL: 'fatal',
    GATEWAY_UPSTREAM_TIMEOUT_MS: '600000',
    DRAIN_TIMEOUT_MS: '30000',
  })
  const key = mintApiKey().secret
  t.equal((await call(`${gateway.url}/api/v1/nowhere`, { key })).status, 404)
  backend.freeze()
  t.equal(await gateway.stop(), 0)
})
