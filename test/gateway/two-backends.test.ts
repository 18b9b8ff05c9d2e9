import t, { type Test } from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { matches } from '../fixtures/matches.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

const key = mintApiKey().secret
const KEYED_WRITE = { key, body: {}, headers: { 'idempotency-key': 'abc' } }

async function startBoth(t: Test) {
  const [first, second] = [await startRawBackend(t), await startRawBackend(t)]
  const gateway = await startGateway(t, `${first.url},${second.url}`, {
    GATEWAY_UPSTREAM_TIMEOUT_MS: '1000',
    LOG_LEVEL: 'fatal',
  })
  const url = `${gateway.url}/api/v1/debtors`
  const statuses = async (calls: number, options: Parameters<typeof call>[1] = { key }) => {
    const responses = Array.from({ length: calls }, () => call(url, options))
    return [...new Set((await Promise.all(responses)).map(({ status }) => status))]
  }
  await until(async () => (await statuses(1))[0] === 200, 'a backend is ready')
  return { first, second, gateway, statuses }
}

t.test('concurrent calls are sent to both backends', async (t) => {
  const { first, second, statuses } = await startBoth(t)
  t.strictSame(await statuses(50), [200])
  t.ok(first.calls.length > 10 && second.calls.length > 10)
})

// Regression: every worker of every gateway chose the first of equally busy backends.
t.test('successive calls are shared between idle backends', async (t) => {
  const { first, second, statuses } = await startBoth(t)
  const callsBefore = [first.calls.length, second.calls.length] as const
  for (let round = 0; round < 40; round++) t.strictSame(await statuses(1), [200])
  const shares = [first.calls.length - callsBefore[0], second.calls.length - callsBefore[1]]
  t.comment(`shares of 40 calls, one after another: ${shares.join(' and ')}`)
  t.ok(Math.min(...shares) >= 10)
})

t.test(
  'no call fails while a backend refuses connections, even if 50 calls are made concurrently',
  async (t) => {
    const { first, statuses } = await startBoth(t)
    for (let round = 0; round < 5; round++) {
      first.stop()
      t.strictSame(await statuses(50), [200])
      t.strictSame(await statuses(50, KEYED_WRITE), [200])
    }
  },
)

t.test('requests for pages are not sent to a backend that refuses connections', async (t) => {
  const { first, second, gateway } = await startBoth(t)
  for (const stopped of [first, second]) {
    stopped.stop()
    for (let page = 0; page < 5; page++) {
      t.equal((await fetch(`${gateway.url}/docs`)).status, stopped === first ? 200 : 503)
    }
  }
})

t.test('if two of three backends refuse connections, calls are sent to the third', async (t) => {
  const good = await startRawBackend(t)
  const dead = [await reservePort(), await reservePort()].map((port) => `http://127.0.0.1:${port}`)
  const gateway = await startGateway(t, [...dead, good.url].join(), { LOG_LEVEL: 'fatal' })
  const responses = Array.from({ length: 30 }, () => call(`${gateway.url}/api/v1/debtors`, { key }))
  t.ok((await Promise.all(responses)).every(({ status }) => status === 200))
})

t.test(
  'if no backend is available, calls get 503 immediately, and succeed again afterwards',
  async (t) => {
    const { first, second, gateway, statuses } = await startBoth(t)
    first.stop()
    second.stop()
    const times: number[] = []
    const send = async () => {
      const from = performance.now()
      const response = await call(`${gateway.url}/api/v1/debtors`, { key })
      times.push(performance.now() - from)
      return response
    }
    const response = await send()
    matches(t, response, { status: 503, headers: { 'retry-after': '1' } })
    for (let round = 0; round < 9; round++) t.equal((await send()).status, 503)
    const fastestMs = Math.min(...times)
    t.ok(
      fastestMs < 500,
      `the fastest of ten got 503 after ${fastestMs.toFixed(1)} ms; the machine may pause others`,
    )
    await startRawBackend(t, Number(new URL(first.url).port))
    await until(async () => (await statuses(1))[0] === 200, 'a backend is ready again')
  },
)

t.test('a frozen backend gets no more calls once it misses a readiness probe', async (t) => {
  const { first, statuses } = await startBoth(t)
  first.freeze()
  // On a busy machine, the second backend may miss a probe too. Calls then go to both for a while.
  let rounds = 0
  await until(async () => {
    rounds = (await statuses(20)).join() === '200' ? rounds + 1 : 0
    return rounds === 6
  }, 'only the second backend gets calls, for six rounds in a row')
})

// Regression: these calls, and all later calls with the same keys, waited for 10 s. Some of them then got 503.
t.test(
  'keys that are being looked up at a backend that freezes are looked up at the other',
  async (t) => {
    const [frozen, other] = [await startRawBackend(t), await startRawBackend(t)]
    const gateway = await startGateway(t, `${frozen.url},${other.url}`, {
      GATEWAY_UPSTREAM_TIMEOUT_MS: '30000',
      LOG_LEVEL: 'fatal',
    })
    const readyz = `http://127.0.0.1:${gateway.operationsPort}/readyz`
    const isReady = async () => {
      const { reasons, degraded } = (await call(readyz)).json
      return [...reasons, ...degraded].length === 0
    }
    await until(isReady, 'both backends are ready')
    frozen.freeze()
    // The gateway itself rejects these calls, after it has looked the keys up.
    const responses = Array.from({ length: 20 }, () =>
      call(`${gateway.url}/api/v1/nowhere`, { key: mintApiKey().secret }),
    )
    t.strictSame([...new Set((await Promise.all(responses)).map(({ status }) => status))], [404])
  },
)

t.test('calls to a backend that fails every call are rarely repeated', async (t) => {
  const backend = await startRawBackend(t)
  const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal' })
  t.equal((await call(`${gateway.url}/api/v1/debtors`, { key })).status, 200)
  backend.setBehavior((socket) => socket.destroy())
  const callsBefore = backend.calls.length
  for (let round = 0; round < 100; round++) {
    t.equal((await call(`${gateway.url}/api/v1/debtors`, { key })).status, 502)
  }
  t.ok(
    backend.calls.length - callsBefore <= 100 + 10 + 10,
    `${backend.calls.length - callsBefore} attempts for 100 calls`,
  )
  backend.setBehavior((socket) => socket.write(RAW_OK))
  t.equal((await call(`${gateway.url}/api/v1/debtors`, { key })).status, 200)
})
