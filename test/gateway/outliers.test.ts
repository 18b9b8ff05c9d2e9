/** A backend that fails far more often than its peers is ejected, then used on trial, and then used as before. */
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { BackendHealth } from '../../gateway/upstream/backend-health.ts'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

const key = mintApiKey().secret
const PROBLEM = '{"type":"about:blank","title":"x","status":500,"code":"internal_error"}'
const FAILED = `HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/problem+json\r\nContent-Length: ${PROBLEM.length}\r\n\r\n${PROBLEM}`

async function start(t: Test, count: number, env: Record<string, string> = {}) {
  const backends = await Promise.all(Array.from({ length: count }, () => startRawBackend(t)))
  const urls = backends.map(({ url }) => url).join()
  const gateway = await startGateway(t, urls, { LOG_LEVEL: 'fatal', ...env })
  const operations = `http://127.0.0.1:${gateway.operationsPort}`
  const metric = async (name: string) => {
    const { text } = await call(`${operations}/metrics`)
    const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`))
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  }
  await until(
    async () => (await metric('receivables_gateway_upstream_ready')) === count,
    'all backends are ready',
  )
  const send = async () =>
    (await fetch(`${gateway.url}/api/v1/debtors`, { headers: { authorization: `Bearer ${key}` } }))
      .status
  /** Makes calls one after another. Resolves with the number of those that failed. */
  const sendMany = async (calls: number) => {
    const statuses: number[] = []
    for (let sent = 0; sent < calls; sent++) statuses.push(await send())
    return statuses.filter((status) => status !== 200).length
  }
  const health = async () => (await call(`${operations}/readyz`)).text
  return { backends, metric, send, sendMany, health, gateway }
}

// Regression: every second call failed for as long as the backend failed.
t.test(
  'a backend that fails every call is ejected, tried again, and used again once it works',
  async (t) => {
    const { backends, metric, send, sendMany, health } = await start(t, 2)
    const [bad] = backends
    if (bad === undefined) throw new Error('there is no backend')
    t.equal(await sendMany(10), 0)
    bad.setBehavior((socket) => socket.write(FAILED))
    const failed = await sendMany(200)
    t.comment(`${failed} of 200 calls failed`)
    t.ok(failed >= 5 && failed <= 10, `${failed} of 200 calls failed`)
    t.equal(await metric('receivables_gateway_upstream_ejected'), 1)
    t.ok((await health()).includes(`backend ${bad.url} fails far more often than the others`))

    bad.setBehavior((socket) => socket.write(RAW_OK))
    await until(async () => {
      t.equal(await send(), 200)
      return (await metric('receivables_gateway_upstream_ejected')) === 0
    }, 'the backend is healthy again')
    const callsBefore = bad.calls.length
    t.equal(await sendMany(40), 0)
    t.ok(bad.calls.length - callsBefore >= 10, 'the backend gets its share')
  },
)

t.test('backends that fail equally often are not ejected', async (t) => {
  const { backends, metric, sendMany } = await start(t, 2)
  for (const backend of backends) backend.setBehavior((socket) => socket.write(FAILED))
  t.equal(await sendMany(100), 100)
  t.equal(await metric('receivables_gateway_upstream_ejected'), 0)
  for (const { calls } of backends) t.ok(calls.length >= 40)
})

/** Simulates the health of backends with a simulated clock, so that no test waits. */
function simulate(count: number) {
  const backends = Array.from({ length: count }, () => new BackendHealth())
  let now = 1_000_000
  return {
    wait(ms: number) {
      now += ms
    },
    succeed(index: number, times: number) {
      for (let successes = 0; successes < times; successes++) backends[index]?.recordSuccess(now)
    },
    /** Returns after how many failures the backend was ejected; undefined if it was not. */
    fail(index: number, times: number) {
      const peers = backends.filter((_, other) => other !== index)
      for (let failures = 1; failures <= times; failures++)
        if (backends[index]?.recordFailure(peers, now)) return failures
      return undefined
    },
    states: () => backends.map((health) => health.state(now)),
  }
}

t.test('a backend that fails its trial is ejected for twice as long, up to a minute', async (t) => {
  const { succeed, fail, wait, states } = simulate(2)
  succeed(1, 100)
  t.equal(fail(0, 100), 5)
  for (const seconds of [5, 10, 20, 40, 60, 60]) {
    wait(seconds * 1_000 - 1)
    t.strictSame(states(), ['ejected', 'healthy'])
    t.equal(fail(0, 5), undefined, 'results of earlier requests are ignored')
    // An ejection lasts up to a fifth longer, so that gateways do not use the backend again at the same time.
    wait(seconds * 200 + 1)
    t.strictSame(states(), ['on_trial', 'healthy'])
    succeed(0, 9)
    t.equal(fail(0, 5), 2)
  }
  wait(72_001)
  succeed(0, 10)
  t.strictSame(states(), ['healthy', 'healthy'])
})

t.test(
  'a backend is not ejected after few failures, if its peers have few results, or if they fail as often',
  async (t) => {
    const few = simulate(2)
    few.succeed(1, 100)
    t.equal(few.fail(0, 4), undefined)
    few.wait(60_000)
    few.succeed(1, 100)
    t.equal(few.fail(0, 4), undefined, 'older results count less')

    const untested = simulate(2)
    untested.succeed(1, 9)
    t.equal(untested.fail(0, 100), undefined)

    const alike = simulate(3)
    for (const index of [1, 2]) {
      alike.succeed(index, 70)
      alike.fail(index, 30)
    }
    alike.succeed(0, 30)
    t.equal(alike.fail(0, 100), undefined)
  },
)

t.test('at most half of the backends are ejected, and never the only one', async (t) => {
  const cases = [
    { count: 1, most: 0 },
    { count: 2, most: 1 },
    { count: 3, most: 1 },
    { count: 4, most: 2 },
    { count: 5, most: 2 },
  ]
  for (const { count, most } of cases) {
    const { succeed, fail, states } = simulate(count)
    for (let index = 0; index < count; index++) succeed(index, 100)
    for (let index = 0; index < count; index++) fail(index, 1_000)
    t.equal(
      states().filter((state) => state === 'ejected').length,
      most,
      `at most ${most} of ${count}`,
    )
  }
})

// Regression: such calls waited for 5 s for a connection that never became free, and got 503.
t.test('calls that wait for a backend that freezes are sent to the other backend', async (t) => {
  const { backends, send } = await start(t, 2, {
    ...{ BACKEND_CONNECTIONS: '1', GATEWAY_UPSTREAM_TIMEOUT_MS: '6500' },
  })
  const [frozen] = backends
  t.equal(await send(), 200)
  frozen?.freeze()
  const statuses = await Promise.all(Array.from({ length: 12 }, send))
  t.strictSame(
    statuses.filter((status) => status !== 200),
    [504],
    'only the call that was sent to the frozen backend fails',
  )
})

// Regression: such calls waited in the slow backend's own queue.
t.test('calls that wait for a slow backend are sent to an idle backend', async (t) => {
  const { backends, send } = await start(t, 2, { BACKEND_CONNECTIONS: '1' })
  const [slow] = backends
  const waiting: Socket[] = []
  slow?.setBehavior((socket) => void waiting.push(socket))
  let served = 0
  const calls = Array.from({ length: 12 }, async () => {
    t.equal(await send(), 200)
    served++
  })
  await until(() => served === 11, 'the other backend serves all calls but one', 4_000)
  t.equal(waiting.length, 1)
  waiting[0]?.write(RAW_OK)
  await Promise.all(calls)
})
