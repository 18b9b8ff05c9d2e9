import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { containing, matches, throwsWith } from '../fixtures/matches.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const WORKERS = 3
const LIMIT = 1_000_000

const redis = await startRedis(t)
const system = await startSystem(t, {
  redisUrl: redis.url,
  gatewayEnv: { GATEWAY_WORKERS: String(WORKERS) },
})
const account = await system.operator.createAccount()
const [gateway] = system.gateways
if (gateway === undefined) throw new Error('no gateway')
const url = `${system.url}/api/v1`

const operations = async (path: string, init: RequestInit = {}) => {
  const response = await fetch(`http://127.0.0.1:${gateway.operationsPort}${path}`, init)
  return { status: response.status, text: await response.text() }
}
const sumOf = (name: string, text: string) => {
  const samples = text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
  return samples.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
const metric = async (name: string) => sumOf(name, (await operations('/metrics')).text)
const workerPids = () =>
  readFileSync(`/proc/${gateway.pid}/task/${gateway.pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .map(Number)

/** Creates agents with one connection each, so that calls reach several workers. */
function createAgents(t: Test, count: number) {
  const agents = Array.from({ length: count }, () => new Agent({ connections: 1 }))
  t.teardown(() => Promise.all(agents.map((agent) => agent.destroy())))
  return agents
}

t.test('the workers share one exact limit, and each serves a part of the calls', async (t) => {
  const { secret: key } = await system.operator.issueKey(account)
  const agents = createAgents(t, 30)
  const responses = await Promise.all(
    Array.from({ length: 700 }, (_, n) =>
      call(`${url}/me`, { key, dispatcher: agents[n % agents.length] ?? new Agent() }),
    ),
  )
  t.equal(responses.filter(({ status }) => status === 200).length, 600)
  t.equal(responses.filter(({ status }) => status === 429).length, 100)
  t.equal(await metric('receivables_gateway_calls_total'), 700, 'counted over all workers')
  t.equal(await metric('receivables_gateway_connections'), 30)
  const lines = gateway
    .log()
    .split('\n')
    .filter((line) => line.includes('"status"'))
  const serving = new Set(lines.map((line) => JSON.parse(line).worker))
  t.equal(serving.size, WORKERS, 'every worker served calls')
})

t.test('readiness, liveness and the log level apply to all workers', async (t) => {
  matches(t, await operations('/healthz'), { status: 200 })
  t.strictSame(JSON.parse((await operations('/readyz')).text), {
    ready: true,
    reasons: [],
    degraded: [],
  })
  redis.signal('SIGSTOP')
  const { secret: key } = await system.operator.issueKey(account)
  await Promise.all(createAgents(t, 12).map((dispatcher) => call(`${url}/me`, { key, dispatcher })))
  const degraded = await operations('/readyz')
  t.equal(degraded.status, 200)
  matches(
    t,
    degraded.text,
    containing('redis is unavailable: the rate limit is not shared (it does not respond)'),
  )
  redis.signal('SIGCONT')
  await until(
    async () => (await operations('/readyz')).text.includes('"degraded":[]'),
    'nothing is degraded',
  )
  await operations('/log-level', { method: 'PUT', body: 'warn' })
  const changed = () => gateway.log().split('log level changed').length - 1
  // Each process writes its own log line, before or after the response.
  await until(() => changed() >= 1 + WORKERS, 'every process has logged the change')
  t.equal(changed(), 1 + WORKERS)
})

t.test('the metrics keep the last totals of a worker that hangs', async (t) => {
  const before = await operations('/metrics')
  t.equal(sumOf('receivables_processes', before.text), WORKERS)
  const [hanging = 0] = workerPids()
  process.kill(hanging, 'SIGSTOP')
  t.teardown(() => process.kill(hanging, 'SIGCONT'))
  const { status, text } = await operations('/metrics')
  t.equal(status, 200)
  t.equal(sumOf('receivables_processes', text), WORKERS - 1)
  const calls = 'receivables_gateway_calls_total'
  t.equal(sumOf(calls, text), sumOf(calls, before.text))
  matches(
    t,
    (await operations('/readyz')).text,
    containing('some workers are not ready: a worker does not respond'),
  )
  matches(t, gateway.log(), containing('metrics scrape of a worker failed; using its last totals'))
})

t.test('if a worker is killed, the others serve calls until it is replaced', async (t) => {
  await until(
    async () => (await metric('receivables_processes')) === WORKERS,
    'all workers respond',
  )
  const { secret: key } = await system.operator.issueKey(account, { rateLimit: 1_000_000 })
  const before = workerPids()
  t.equal(before.length, WORKERS)
  const callsBefore = await metric('receivables_gateway_calls_total')
  const [killed = 0] = before
  process.kill(killed, 'SIGKILL')
  await until(() => !workerPids().includes(killed), 'the worker has ended')
  const [agent] = createAgents(t, 1)
  for (let n = 0; n < 20; n++) {
    t.equal((await call(`${url}/me`, { key, dispatcher: agent ?? new Agent() })).status, 200)
  }
  await until(async () => {
    const pids = workerPids()
    return pids.length === WORKERS && !pids.includes(killed)
  }, 'a new worker replaces it')
  await until(
    async () => (await operations('/readyz')).text.includes('"degraded":[]'),
    'all workers are ready',
  )
  matches(t, gateway.log(), containing('a worker ended and will be replaced'))
  t.ok((await metric('receivables_gateway_calls_total')) >= callsBefore + 20, 'no total decreases')
})

// Regression: a hanging worker was not replaced: new connections were still assigned to it, and never served.
t.test('a worker that hangs is killed and replaced', async (t) => {
  const [hanging = 0] = workerPids()
  process.kill(hanging, 'SIGSTOP')
  await until(
    () => {
      const pids = workerPids()
      return pids.length === WORKERS && !pids.includes(hanging)
    },
    'a new worker replaces it',
    30_000,
  )
  await until(
    async () => (await operations('/readyz')).text.includes('"degraded":[]'),
    'all workers are ready',
  )
  const { secret: key } = await system.operator.issueKey(account)
  const calls = createAgents(t, 30).map((dispatcher) => call(`${url}/me`, { key, dispatcher }))
  const statuses = (await Promise.all(calls)).map(({ status }) => status)
  t.strictSame([...new Set(statuses)], [200], 'each new connection is served')
})

t.test('SIGTERM drains all workers: no accepted call fails', async (t) => {
  const { secret: key } = await system.operator.issueKey(account, { rateLimit: LIMIT })
  const outcomes = new Map<string, number>()
  let remaining = LIMIT
  let isDraining = false
  let isOver = false
  const load = createAgents(t, 8).map(async (dispatcher) => {
    let isNew = true
    dispatcher.on('connect', () => (isNew = true))
    while (!isOver) {
      const outcome = await call(`${url}/me`, { key, dispatcher }).then(
        ({ status, headers }) => {
          isNew = false
          remaining = Math.min(remaining, Number(headers['x-ratelimit-remaining']))
          return String(status)
        },
        // The kernel resets connections that wait to be accepted while the listener closes.
        (error) => {
          const isUnaccepted = error.syscall === 'connect' || (isNew && error.code === 'ECONNRESET')
          return isDraining && isUnaccepted ? 'refused' : `broken: ${error}`
        },
      )
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
      if (outcome !== '200') await new Promise((resolve) => setTimeout(resolve, 10))
    }
  })
  await until(() => (outcomes.get('200') ?? 0) > 100, '100 calls have succeeded')
  const pids = workerPids()
  isDraining = true
  t.equal(await gateway.stop(), 0)
  isOver = true
  await Promise.all(load)
  t.strictSame(
    [...outcomes.keys()].filter((outcome) => !['200', 'refused'].includes(outcome)),
    [],
  )
  t.equal(LIMIT - remaining, outcomes.get('200'), 'no counted call was reset')
  for (const pid of pids) throwsWith(t, () => process.kill(pid, 0), { code: 'ESRCH' })
})

t.test('a gateway with several workers does not start without Redis, and says why', async (t) => {
  const { status, stderr } = spawnSync(process.execPath, ['gateway/main.ts'], {
    env: { GATEWAY_SECRET, GATEWAY_WORKERS: '2' },
    encoding: 'utf8',
  })
  t.equal(status, 2)
  matches(
    t,
    stderr,
    containing(
      'GATEWAY_WORKERS is 2, but REDIS_URL is not set. Workers need Redis to count calls together: set REDIS_URL',
    ),
  )
})
