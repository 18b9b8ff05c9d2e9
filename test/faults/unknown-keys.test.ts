/**
 * Calls with valid keys succeed during a flood of well-formed keys that do not exist. The test also prints how long
 * they take compared to calls during a flood of malformed keys.
 */
import t from 'tap'
import { Agent } from 'undici'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

/** The number of keys in a flood. */
const FLOOD = Number(process.env['FLOOD'] ?? 2_000)
const ROUNDS = Number(process.env['ROUNDS'] ?? 3)
/** The number of connections that send a flood. */
const FLOODERS = 32
/** The number of made-up keys per second while valid keys are looked up again after a restart. */
const RATE = Number(process.env['RATE'] ?? 800)
const TICK_MS = 5

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal' })
const url = `${gateway.url}/api/v1/debtors`
const key = backend.issue(undefined, 10_000_000)
const dispatcher = new Agent({ connections: FLOODERS, pipelining: 1 })
t.teardown(() => dispatcher.destroy())

const unknownKeys = (count: number) => Array.from({ length: count }, () => mintApiKey().secret)

/** Sends each key once. Resolves with the number of responses of each status. */
async function flood(keys: readonly string[]): Promise<Map<number, number>> {
  const statuses = new Map<number, number>()
  let next = 0
  const flooders = Array.from({ length: FLOODERS }, async () => {
    for (let at = next++; at < keys.length; at = next++) {
      const { status } = await call(url, { key: keys[at] ?? '', dispatcher })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  })
  await Promise.all(flooders)
  return statuses
}

/**
 * Makes calls with a valid key, one after the other, during a flood with `keys`. Resolves with the 99th percentile of
 * their durations, and with the statuses that they and the flood received.
 */
async function callDuring(keys: readonly string[]) {
  let isOver = false
  const flooding = flood(keys).finally(() => {
    isOver = true
  })
  const times: number[] = []
  const statuses = new Set<number>()
  while (!isOver) {
    const from = performance.now()
    statuses.add((await call(url, { key })).status)
    times.push(performance.now() - from)
  }
  const floodStatuses = [...(await flooding).keys()]
  times.sort((a, b) => a - b)
  return {
    p99: times[Math.floor(times.length * 0.99)] ?? 0,
    statuses: { valid: [...statuses], flood: floodStatuses },
  }
}

t.test(
  'calls with a valid key succeed during floods of malformed and of unknown keys',
  async (t) => {
    await callDuring(unknownKeys(1_000))
    const ratios: number[] = []
    // The durations are only printed, because the machine may be busy.
    for (let round = 0; round < ROUNDS; round++) {
      const keys = unknownKeys(FLOOD)
      const malformed = keys.map(
        (secret) => secret.slice(0, -1) + (secret.endsWith('x') ? 'y' : 'x'),
      )
      const amongMalformed = await callDuring(malformed)
      const amongUnknown = await callDuring(keys)
      t.strictSame(amongMalformed.statuses, { valid: [200], flood: [401] })
      t.strictSame(amongUnknown.statuses, { valid: [200], flood: [401] })
      ratios.push(amongUnknown.p99 / amongMalformed.p99)
      t.comment(
        `p99 among ${FLOOD} malformed ${amongMalformed.p99.toFixed(1)} ms, unknown ${amongUnknown.p99.toFixed(1)} ms`,
      )
    }
    const median = ratios.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0
    t.comment(`median ratio ${median.toFixed(2)}`)
  },
)

t.test('the first call with each new key succeeds while a flood lasts', async (t) => {
  const fresh = Array.from({ length: 200 }, () => backend.issue(undefined, 1_000))
  let isOver = false
  const flooding = (async () => {
    const statuses = new Set<number>()
    do {
      for (const status of (await flood(unknownKeys(FLOOD / 10))).keys()) statuses.add(status)
    } while (!isOver)
    return statuses
  })()
  const seen: number[] = []
  for (const one of fresh) seen.push((await call(url, { key: one })).status)
  isOver = true
  // No call gets 503, because fewer calls wait for a look-up than a gateway allows.
  t.strictSame(
    seen,
    Array.from(fresh, () => 200),
  )
  t.strictSame([...(await flooding)], [401])
})

t.test('an unknown key costs one look-up, however often it is sent', async (t) => {
  const keys = unknownKeys(50)
  const from = backend.lookUps()
  for (let round = 0; round < 20; round++) await flood(keys)
  t.equal(backend.lookUps() - from, 50)
})

t.test('concurrent calls with the same unknown key cost one look-up', async (t) => {
  const [secret = ''] = unknownKeys(1)
  const from = backend.lookUps()
  t.strictSame([...(await flood(Array.from({ length: 64 }, () => secret))).keys()], [401])
  t.equal(backend.lookUps() - from, 1)
})

/**
 * Sends about `RATE` made-up keys a second from this many addresses, whatever the responses, until it is stopped. On a
 * slow machine, it sends fewer: otherwise, the fake backend, which runs in the same process, could not respond.
 */
function floodFrom(addresses: number, port: () => number) {
  const agents = Array.from({ length: addresses }, (_, index) => {
    const localAddress = `127.0.1.${index + 1}`
    return new Agent({ connections: 2_000 / addresses, pipelining: 1, connect: { localAddress } })
  })
  let isStopped = false
  const sent: Promise<unknown>[] = []
  const timer = setInterval(() => {
    for (let n = 0; n < (RATE * TICK_MS) / 1_000 && !isStopped; n++) {
      const dispatcher = agents[sent.length % addresses]
      const to = `http://127.0.0.1:${port()}/api/v1/debtors`
      const made = { key: mintApiKey().secret, ...(dispatcher === undefined ? {} : { dispatcher }) }
      sent.push(call(to, made).catch(() => undefined))
    }
  }, TICK_MS)
  return {
    sent: () => sent.length,
    async stop() {
      isStopped = true
      clearInterval(timer)
      await Promise.all(agents.map((agent) => agent.destroy()))
      await Promise.all(sent)
    },
  }
}

// Such a flood once used up all look-ups. After a restart, calls with 8 of 12 keys in use got 503, and so did every
// call with a new key.
for (const addresses of [1, 30]) {
  t.test(
    `calls with keys in use succeed after a restart, during a flood from ${addresses === 1 ? 'one address' : `${addresses} addresses`}`,
    async (t) => {
      const inUse = Array.from({ length: 12 }, () => backend.issue(undefined, 1_000))
      backend.delayLookUps(20)
      t.teardown(() => backend.delayLookUps(0))
      let current = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal' })
      const statusOf = async (secret: string) =>
        (await call(`${current.url}/api/v1/debtors`, { key: secret })).status
      const OK = inUse.map(() => 200)
      t.strictSame(await Promise.all(inUse.map(statusOf)), OK)
      const flood = floodFrom(addresses, () => current.port)
      t.teardown(() => flood.stop())
      await until(() => flood.sent() > RATE, 'the flood has begun')
      await current.stop('SIGKILL')
      current = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal' })
      const from = flood.sent()
      await until(() => flood.sent() > from + 2 * RATE, 'the flood has reached the new process')
      t.strictSame(await Promise.all(inUse.map(statusOf)), OK)
      t.equal(await statusOf(backend.issue()), 200, 'a new key')
      await flood.stop()
    },
  )
}

t.test(
  'a client is served in its turn while another client floods the look-ups of keys',
  async (t) => {
    backend.delayLookUps(1_000)
    t.teardown(() => backend.delayLookUps(0))
    const limits = { GATEWAY_CONNECTIONS_PER_CLIENT: '4500' }
    const own = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal', ...limits })
    const keys = unknownKeys(4_000)
    const agent = new Agent({
      connections: 4_000,
      pipelining: 1,
      connect: { localAddress: '127.0.1.1' },
    })
    t.teardown(() => agent.destroy())
    const to = `${own.url}/api/v1/debtors`
    const flooding = keys.map(
      async (secret) => (await call(to, { key: secret, dispatcher: agent })).status,
    )
    const shed = await Promise.any(
      flooding.map(async (status) => {
        if ((await status) !== 503) throw new Error('served')
        return true
      }),
    )
    t.ok(shed, 'more calls wait than the gateway allows')
    t.equal((await call(to, { key: backend.issue() })).status, 200)
    t.strictSame(new Set(await Promise.all(flooding)), new Set([401, 503]))
  },
)
