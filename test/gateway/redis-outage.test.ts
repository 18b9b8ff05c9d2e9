/** While Redis is unavailable, the log and `/readyz` say what the gateway does with calls. */
import t from 'tap'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const backend = await startCapturingBackend(t)
const key = backend.issue()

// Regression: the log and `/readyz` also said for `deny` that the rate limit was not shared.
for (const [policy, effect, status] of [
  ['local', 'the rate limit is not shared', 200],
  ['deny', 'calls are rejected', 503],
] as const) {
  t.test(`with ${policy}, the log and /readyz say that ${effect}`, async (t) => {
    const redis = await startRedis(t)
    const gateway = await startGateway(t, backend.url, {
      REDIS_URL: redis.url,
      RATE_LIMIT_ON_REDIS_OUTAGE: policy,
    })
    const readiness = async () =>
      (await call(`http://127.0.0.1:${gateway.operationsPort}/readyz`)).json
    await until(async () => (await readiness()).reasons.length === 0, 'the gateway is ready')
    redis.signal('SIGSTOP')
    t.equal((await call(`${gateway.url}/api/v1/debtors`, { key })).status, status)
    t.strictSame((await readiness()).degraded, [
      `redis is unavailable: ${effect} (it does not respond)`,
    ])
    const lines = gateway.log().trim().split('\n')
    const outages = lines.map((line) => JSON.parse(line)).filter(({ onOutage }) => onOutage)
    t.strictSame(
      outages.map(({ msg }) => msg),
      [`redis is unavailable: ${effect}`],
    )
  })
}
