/**
 * Under overload, the accounts take turns, and so do the keys of each account. Regression: calls were served in the
 * order of arrival, so that calls with other keys got 503 during a flood of calls with one key.
 */
import { Agent as HttpAgent, request, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import {
  type CapturingBackend,
  startCapturingBackend,
} from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

/** Several times as many callers as calls that the gateway queues when four connections serve 200 calls a second. */
const FLOODERS = 500
const LIMIT = 1_000_000
const CONNECTIONS = 4
/** The number of calls that may wait even under overload. */
const WAITING_MIN = 16
const SHED = 'Nothing was done or counted.'

/** Starts a gateway with only four connections to its backend. The test determines how slow the backend is. */
async function startWithFewConnections(t: Test, env: Record<string, string> = {}) {
  const backend = await startCapturingBackend(t)
  const gateway = await startGateway(t, backend.url, {
    BACKEND_CONNECTIONS: String(CONNECTIONS),
    LOG_LEVEL: 'fatal',
    ...env,
  })
  const { address, operationsPort } = gateway
  const waiting = async () => {
    const metrics = await fetch(`http://${address}:${operationsPort}/metrics`)
    const [, calls] = /^receivables_gateway_calls_waiting (\d+)$/m.exec(await metrics.text()) ?? []
    return Number(calls)
  }
  return {
    backend,
    url: `${gateway.url}/api/v1/debtors`,
    /** Returns the number of queued calls. */
    waiting,
    untilWaiting: (calls: number) =>
      until(async () => (await waiting()) === calls, `${calls} calls wait`),
  }
}

function respondAfter(backend: CapturingBackend, ms: number): void {
  backend.respondWith((_, res) => void setTimeout(() => res.end('{}'), ms))
}

interface Outcome {
  readonly status: number
  /** Whether the call was shed, and so not counted. An admitted call can also get 503. */
  readonly isShed: boolean
  readonly retryAfter: string | undefined
}

/**
 * Makes calls from `FLOODERS` callers until `end`. After a 503, a caller waits as `Retry-After` says, but at most
 * `waitMsMax`.
 */
function flood(t: Test, url: string, key: string, waitMsMax = Number.POSITIVE_INFINITY) {
  const agent = new HttpAgent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const outcomes: Outcome[] = []
  let isDone = false
  const callers = Array.from({ length: FLOODERS }, async () => {
    while (!isDone) {
      const outcome = await callOnce(agent, url, key)
      outcomes.push(outcome)
      if (outcome.status === 503) {
        await delay(Math.min(1_000 * Number(outcome.retryAfter), waitMsMax))
      }
    }
  })
  return {
    outcomes,
    async end() {
      isDone = true
      await Promise.all(callers)
    },
  }
}

function callOnce(agent: HttpAgent, url: string, key: string): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}` }
    const sent = request(url, { agent, headers }, (response) => {
      const { statusCode: status = 0, headers: received } = response
      const retryAfter = received['retry-after']
      text(response).then(
        (body) => resolve({ status, isShed: body.includes(SHED), retryAfter }),
        reject,
      )
    })
    sent.on('error', reject).end()
  })
}

t.test('during a flood of calls with one key, each call with another key is served', async (t) => {
  const { backend, url } = await startWithFewConnections(t)
  const [good, greedy] = [backend.issue(undefined, LIMIT), backend.issue(undefined, LIMIT)]
  t.equal((await call(url, { key: good })).status, 200)
  t.equal((await call(url, { key: greedy })).status, 200)
  respondAfter(backend, 20)
  const { outcomes, end } = flood(t, url, greedy)
  await until(() => outcomes.some(({ isShed }) => isShed), 'the flood is shed', 30_000)
  const statuses: number[] = []
  const times: number[] = []
  for (let round = 0; round < 20; round++) {
    const from = performance.now()
    statuses.push((await call(url, { key: good })).status)
    times.push(performance.now() - from)
  }
  await end()
  times.sort((a, b) => a - b)
  const served = outcomes.filter(({ status }) => status === 200)
  t.comment(`good calls: p50 ${times[10]?.toFixed()} ms, worst ${times.at(-1)?.toFixed()} ms`)
  t.comment(`flood: ${served.length} of ${outcomes.length} served`)
  t.strictSame([...new Set(statuses)], [200], 'each call with the other key is served')
  const shed = outcomes.filter(({ status }) => status !== 200)
  t.strictSame(
    [...new Set(shed.map(({ status, retryAfter }) => `${status} ${retryAfter}`))],
    ['503 1'],
  )
  const { headers } = await call(url, { key: greedy })
  const counted = LIMIT - Number(headers['x-ratelimit-remaining'])
  const admitted = outcomes.filter(({ isShed }) => !isShed)
  t.equal(counted, admitted.length + 2, 'shed calls are not counted')
})

// Regression: only keys took turns, so that an account with many keys got nearly all turns, and the calls of other
// accounts were shed.
t.test('a call is not shed because of the calls with many keys of another account', async (t) => {
  const { backend, url, untilWaiting } = await startWithFewConnections(t)
  const keys = Array.from({ length: 40 }, () => backend.issue(undefined, LIMIT, 'acct_greedy'))
  const [first = ''] = keys
  const other = backend.issue(undefined, LIMIT, 'acct_other')
  for (const key of [...keys, other]) t.equal((await call(url, { key })).status, 200)
  const pending: ServerResponse[] = []
  backend.respondWith((_, res) => void pending.push(res))
  const greedy = keys.map((key) => call(url, { key }))
  const waitingCalls = keys.length - CONNECTIONS
  await untilWaiting(waitingCalls)
  const shed = async () => {
    const signal = AbortSignal.timeout(100)
    const headers = { authorization: `Bearer ${first}` }
    return fetch(url, { headers, signal }).then(
      ({ status }) => status === 503,
      () => false,
    )
  }
  await until(shed, 'calls with the keys of the greedy account are shed')
  await untilWaiting(waitingCalls)
  const last = call(url, { key: other })
  await Promise.race([last, untilWaiting(waitingCalls + 1)])
  respondAfter(backend, 0)
  for (const res of pending) res.end('{}')
  t.equal((await last).status, 200)
  await Promise.all(greedy)
})

t.test('simultaneous calls with many keys are all served by a slow backend', async (t) => {
  const { backend, url } = await startWithFewConnections(t)
  const keys = Array.from({ length: 40 }, () => backend.issue())
  for (const key of keys) t.equal((await call(url, { key })).status, 200)
  respondAfter(backend, 50)
  const responses = await Promise.all(keys.map((key) => call(url, { key })))
  t.strictSame(
    [...new Set(responses.map(({ status }) => status))],
    [200],
    'every call in a short queue is served',
  )
})

// Regression: even calls in a short queue were shed after a pause, because the backends looked as if they
// had served nothing.
t.test('a call with few calls ahead of it is not shed, however slow the backend was', async (t) => {
  const { backend, url, untilWaiting } = await startWithFewConnections(t)
  const [busy, other] = [backend.issue(), backend.issue()]
  for (const key of [busy, other]) t.equal((await call(url, { key })).status, 200)
  const pending: ServerResponse[] = []
  backend.respondWith((_, res) => void pending.push(res))
  const few = CONNECTIONS - 1
  const pausedAt = performance.now()
  const waiting = Array.from({ length: CONNECTIONS + few }, () => call(url, { key: busy }))
  await untilWaiting(few)
  // Calls of clients that disconnect make the gateway measure the rate, which is 0.
  const measured = async () => {
    const signal = AbortSignal.timeout(20)
    await fetch(url, { headers: { authorization: `Bearer ${busy}` }, signal }).catch(() => {})
    return performance.now() - pausedAt > 3_000
  }
  await until(measured, 'the backend looks slow to the gateway')
  await untilWaiting(few)
  const last = call(url, { key: other })
  await Promise.race([last, untilWaiting(few + 1)])
  respondAfter(backend, 0)
  for (const res of pending) res.end('{}')
  t.equal((await last).status, 200)
  await Promise.all(waiting)
})

// Regression: short queues in quick succession counted as one long queue, and as part of an earlier overload. A
// burst after them was shed, although the backend was idle most of the time.
t.test('a burst after short queues, each of which became empty, is not shed', async (t) => {
  const { backend, url } = await startWithFewConnections(t)
  const key = backend.issue(undefined, LIMIT)
  t.equal((await call(url, { key })).status, 200)
  const burst = (calls: number) =>
    Promise.all(Array.from({ length: calls }, async () => (await call(url, { key })).status))
  respondAfter(backend, 20)
  const { outcomes, end } = flood(t, url, key)
  await until(() => outcomes.some(({ isShed }) => isShed), 'the flood is shed', 30_000)
  await end()
  respondAfter(backend, 2)
  const from = performance.now()
  while (performance.now() - from < 1_000) await burst(2 * CONNECTIONS)
  t.strictSame([...new Set(await burst(4 * WAITING_MIN))], [200])
})

t.test('a call that waits for a connection in vain is not counted', async (t) => {
  const { backend, url } = await startWithFewConnections(t)
  const [busy, other] = [backend.issue(), backend.issue()]
  t.equal((await call(url, { key: busy })).status, 200)
  const { headers: before } = await call(url, { key: other })
  const pending: ServerResponse[] = []
  backend.respondWith((_, res) => void pending.push(res))
  const occupying = Array.from({ length: CONNECTIONS }, () => call(url, { key: busy }))
  await until(() => pending.length === CONNECTIONS, 'every connection has a call')
  const unserved = await Promise.all([
    call(url, { key: other }),
    call(url, { key: other }),
    call(url, { key: other }),
  ])
  t.strictSame(
    unserved.map(({ status, headers }) => `${status} ${headers['retry-after']}`),
    ['503 1', '503 1', '503 1'],
  )
  for (const { headers } of unserved) {
    t.equal(headers['x-ratelimit-remaining'], before['x-ratelimit-remaining'])
  }
  respondAfter(backend, 0)
  for (const res of pending) res.end('{}')
  for (const { status } of await Promise.all(occupying)) t.equal(status, 200)
  const { headers: after } = await call(url, { key: other })
  const remaining = (headers: typeof after) => Number(headers['x-ratelimit-remaining'])
  t.equal(remaining(before) - remaining(after), 1, 'only the call that was served is counted')
})

t.test('the limit is exact for a key whose calls are queued', async (t) => {
  const { backend, url } = await startWithFewConnections(t)
  const limit = 30
  const key = backend.issue(undefined, limit)
  t.equal((await call(url, { key })).status, 200)
  respondAfter(backend, 10)
  const responses = await Promise.all(Array.from({ length: 50 }, () => call(url, { key })))
  const count = (expected: number) => responses.filter(({ status }) => status === expected).length
  t.equal(count(200), limit - 1)
  t.equal(count(200) + count(429), responses.length)
  const numbers = responses
    .filter(({ status }) => status === 200)
    .map(({ headers }) => Number(headers['x-ratelimit-remaining']))
  t.equal(new Set(numbers).size, numbers.length, 'each served call has its own number')
})

t.test('a call whose client disconnects while it waits is not counted', async (t) => {
  const { backend, url, untilWaiting } = await startWithFewConnections(t)
  const [busy, disconnecting] = [backend.issue(), backend.issue()]
  t.equal((await call(url, { key: busy })).status, 200)
  const { headers: before } = await call(url, { key: disconnecting })
  const pending: ServerResponse[] = []
  backend.respondWith((_, res) => void pending.push(res))
  const occupying = Array.from({ length: CONNECTIONS }, () => call(url, { key: busy }))
  await until(() => pending.length === CONNECTIONS, 'every connection has a call')
  const abort = new AbortController()
  const headers = { authorization: `Bearer ${disconnecting}` }
  const aborted = fetch(url, { headers, signal: abort.signal })
  await untilWaiting(1)
  abort.abort()
  await t.rejects(aborted)
  await untilWaiting(0)
  const requestsBefore = backend.requests.length
  respondAfter(backend, 0)
  for (const res of pending) res.end('{}')
  await Promise.all(occupying)
  const { headers: after } = await call(url, { key: disconnecting })
  const remaining = (headers: typeof after) => Number(headers['x-ratelimit-remaining'])
  t.equal(remaining(before) - remaining(after), 1)
  t.equal(backend.requests.length, requestsBefore + 1)
})

t.test('calls that wait for Redis are not shed, since the backend is idle', async (t) => {
  const redis = await startRedis(t)
  const { backend, url } = await startWithFewConnections(t, { REDIS_URL: redis.url })
  const agent = new HttpAgent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const key = backend.issue(undefined, LIMIT)
  const send = () => callOnce(agent, url, key)
  t.equal((await send()).status, 200)
  redis.signal('SIGSTOP')
  const pausedAt = performance.now()
  // Far more calls than connections are sent, for longer than a burst lasts, but for less time than the gateway
  // waits for Redis. Later calls could be shed, because the queue would no longer be due to Redis.
  const sent = Array.from({ length: 20 * CONNECTIONS }, send)
  while (performance.now() - pausedAt < 150) {
    sent.push(send())
    await delay(10)
  }
  const statuses = (await Promise.all(sent)).map(({ status }) => status)
  t.strictSame([...new Set(statuses)], [200])
})

// Regression: up to a thousand calls were queued during each pause of Redis, however short.
t.test('a pause of Redis under overload does not make the queue longer', async (t) => {
  const redis = await startRedis(t)
  const { backend, url, waiting } = await startWithFewConnections(t, { REDIS_URL: redis.url })
  const greedy = backend.issue(undefined, LIMIT)
  t.equal((await call(url, { key: greedy })).status, 200)
  respondAfter(backend, 20)
  // If the callers waited for a second, the queue would become empty, and the overload would end.
  const { outcomes, end } = flood(t, url, greedy, 50)
  await until(() => outcomes.some(({ isShed }) => isShed), 'the flood is shed', 30_000)
  await until(async () => (await waiting()) <= WAITING_MIN, 'the queue has become short')
  const lengths: number[] = []
  redis.signal('SIGSTOP')
  const pausedAt = performance.now()
  while (performance.now() - pausedAt < 200) lengths.push(await waiting())
  redis.signal('SIGCONT')
  lengths.push(await waiting())
  await end()
  t.ok(Math.max(...lengths) <= WAITING_MIN, `${Math.max(...lengths)} calls waited at most`)
})
