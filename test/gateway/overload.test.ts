/** One key's flood was first come, first served: another key's calls waited behind it or got 503. */
import { Agent as HttpAgent, request } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { call } from '../fixtures/service/call.ts'
import {
  type CapturingBackend,
  startCapturingBackend,
} from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

/** More than the line before a backend takes. */
const FLOODERS = 1_200
const LIMIT = 1_000_000

/** A gateway whose backend serves four calls at once, and takes some time for each. */
async function startSlow(t: Test) {
  const backend = await startCapturingBackend(t)
  const gateway = await startGateway(t, backend.url, {
    BACKEND_CONNECTIONS: '4',
    LOG_LEVEL: 'fatal',
  })
  return { backend, url: `${gateway.url}/api/v1/debtors` }
}

function respondAfter(backend: CapturingBackend, ms: number): void {
  backend.respondWith((_, res) => void setTimeout(() => res.end('{}'), ms))
}

interface Outcome {
  readonly status: number
  readonly retryAfter: string | undefined
  readonly remaining: number
}

/** Calls over connections of its own until `end`; after a 503 each caller waits as it is told. */
function flood(t: Test, url: string, key: string) {
  const agent = new HttpAgent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const outcomes: Outcome[] = []
  let isOver = false
  const callers = Array.from({ length: FLOODERS }, async () => {
    while (!isOver) {
      const outcome = await callOnce(agent, url, key)
      outcomes.push(outcome)
      if (outcome.status === 503) await delay(1_000 * Number(outcome.retryAfter))
    }
  })
  return {
    outcomes,
    async end() {
      isOver = true
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
      const remaining = Number(received['x-ratelimit-remaining'])
      response.resume().on('end', () => resolve({ status, retryAfter, remaining }))
    })
    sent.on('error', reject).end()
  })
}

t.test("one key's flood does not take the calls of another", async (t) => {
  const { backend, url } = await startSlow(t)
  const [good, greedy] = [backend.issue(undefined, LIMIT), backend.issue(undefined, LIMIT)]
  t.equal((await call(url, { key: good })).status, 200)
  t.equal((await call(url, { key: greedy })).status, 200)
  respondAfter(backend, 20)
  const { outcomes, end } = flood(t, url, greedy)
  await until(() => outcomes.some(({ status }) => status === 503), 'the flood is shed', 30_000)
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
  t.strictSame([...new Set(statuses)], [200], 'each call of the other key is served')
  const shed = outcomes.filter(({ status }) => status !== 200)
  t.strictSame(
    [...new Set(shed.map(({ status, retryAfter }) => `${status} ${retryAfter}`))],
    ['503 1'],
  )
  const { headers } = await call(url, { key: greedy })
  const counted = LIMIT - Number(headers['x-ratelimit-remaining'])
  t.equal(counted, served.length + 2, 'what was shed is not counted')
})

t.test('many keys that call at once share a slow backend', async (t) => {
  const { backend, url } = await startSlow(t)
  const keys = Array.from({ length: 40 }, () => backend.issue())
  for (const key of keys) t.equal((await call(url, { key })).status, 200)
  respondAfter(backend, 50)
  const responses = await Promise.all(keys.map((key) => call(url, { key })))
  t.strictSame([...new Set(responses.map(({ status }) => status))], [200], 'a short line is served')
})
