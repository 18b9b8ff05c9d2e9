/** The clock of the gateway's machine is set, by NTP or by an operator, while the gateway itself counts calls. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const LIMIT = 6
const HOUR_MS = 3_600_000
const STEPS_MS = [11_000, HOUR_MS, 25 * HOUR_MS, 0, -HOUR_MS]

const backend = await startCapturingBackend(t)

// Regression: each step of more than ten seconds opened a new window, which admitted all calls again.
for (const server of ['no Redis', 'Redis during an outage'] as const) {
  t.test(`a window continues when the clock is set: ${server}`, async (t) => {
    const aheadFile = join(t.testdir({ aheadMs: '0' }), 'aheadMs')
    const redis = server === 'no Redis' ? undefined : await startRedis(t)
    const gateway = await startGateway(t, backend.url, {
      NODE_OPTIONS: `--import=${new URL('fixtures/clock-from-file.ts', import.meta.url)}`,
      CLOCK_AHEAD_MS: aheadFile,
      ...(redis && { REDIS_URL: redis.url }),
    })
    const key = backend.issue(undefined, LIMIT)
    const read = () => call(`${gateway.url}/api/v1/debtors`, { key })
    await until(async () => (await readiness(gateway.operationsPort)).status === 200, 'ready')
    t.equal((await read()).headers['x-ratelimit-remaining'], String(LIMIT - 1))
    await redis?.kill()
    for (const [index, step] of STEPS_MS.entries()) {
      writeFileSync(aheadFile, String(step))
      const { status, headers } = await read()
      t.equal(status, 200)
      t.equal(headers['x-ratelimit-remaining'], String(LIMIT - 2 - index), `${step} ms ahead`)
    }
    for (const step of STEPS_MS) {
      writeFileSync(aheadFile, String(step))
      const { status, headers } = await read()
      t.equal(status, 429, `${step} ms ahead`)
      t.ok(Number(headers['retry-after']) <= HOUR_MS / 1000)
    }
  })
}

t.test('without Redis, X-RateLimit-Reset follows the clock', async (t) => {
  const aheadFile = join(t.testdir({ aheadMs: '0' }), 'aheadMs')
  const gateway = await startGateway(t, backend.url, {
    NODE_OPTIONS: `--import=${new URL('fixtures/clock-from-file.ts', import.meta.url)}`,
    CLOCK_AHEAD_MS: aheadFile,
  })
  const key = backend.issue()
  const resetSeconds = async () => {
    const { headers } = await call(`${gateway.url}/api/v1/debtors`, { key })
    return Number(headers['x-ratelimit-reset'])
  }
  const reset = await resetSeconds()
  t.equal(await resetSeconds(), reset)
  for (const step of STEPS_MS) {
    writeFileSync(aheadFile, String(step))
    const moved = await resetSeconds()
    t.ok(Math.abs(moved - reset - step / 1000) <= 1, `${step} ms ahead: ${moved - reset} s later`)
    t.equal(await resetSeconds(), moved)
  }
})

function readiness(operationsPort: number) {
  return call(`http://127.0.0.1:${operationsPort}/readyz`)
}
