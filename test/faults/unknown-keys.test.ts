/** A flood of well-formed keys that do not exist costs the holders of keys no more than any flood. */
import t from 'tap'
import { Agent } from 'undici'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'

const FLOOD = Number(process.env['FLOOD'] ?? 2_000)
const ROUNDS = Number(process.env['ROUNDS'] ?? 3)
const FLOODERS = 32

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal' })
const url = `${gateway.url}/api/v1/debtors`
const key = backend.issue(undefined, 10_000_000)
const dispatcher = new Agent({ connections: FLOODERS, pipelining: 1 })
t.teardown(() => dispatcher.destroy())

const unknownKeys = (count: number) => Array.from({ length: count }, () => mintApiKey().secret)

/** Sends each key once; resolves with how often each status came. */
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

/** The 99th percentile of the calls of a valid key, one after another, for as long as `work` runs. */
async function percentileDuring(work: Promise<unknown>): Promise<number> {
  let isOver = false
  const over = work.finally(() => {
    isOver = true
  })
  const times: number[] = []
  while (!isOver) {
    const from = performance.now()
    const { status } = await call(url, { key })
    if (status !== 200) throw new Error(`a valid key was answered ${status}`)
    times.push(performance.now() - from)
  }
  await over
  times.sort((a, b) => a - b)
  return times[Math.floor(times.length * 0.99)] ?? 0
}

t.test('a flood of unknown keys slows a valid one as malformed keys do', async (t) => {
  await percentileDuring(flood(unknownKeys(1_000)))
  const ratios: number[] = []
  // Each call of the valid key must be served; how fast is printed, because a machine may be busy.
  for (let round = 0; round < ROUNDS; round++) {
    const keys = unknownKeys(FLOOD)
    const malformed = keys.map((secret) => secret.slice(0, -1) + (secret.endsWith('x') ? 'y' : 'x'))
    const amongMalformed = await percentileDuring(flood(malformed))
    const amongUnknown = await percentileDuring(flood(keys))
    ratios.push(amongUnknown / amongMalformed)
    t.comment(
      `p99 among ${FLOOD} malformed ${amongMalformed.toFixed(1)} ms, unknown ${amongUnknown.toFixed(1)} ms`,
    )
  }
  const median = ratios.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0
  t.comment(`median ratio ${median.toFixed(2)}`)
  t.equal(ratios.length, ROUNDS, 'no call of the valid key failed')
})

t.test('each new key is served in a flood, for as long as the flood goes on', async (t) => {
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
  // Fewer flooders than a gateway lets wait for a look-up: nothing is refused for the crowd.
  t.strictSame(
    seen,
    Array.from(fresh, () => 200),
  )
  t.strictSame([...(await flooding)], [401])
})

t.test('an unknown key costs one look-up, however often it comes', async (t) => {
  const keys = unknownKeys(50)
  const from = backend.lookUps()
  for (let round = 0; round < 20; round++) await flood(keys)
  t.equal(backend.lookUps() - from, 50)
})

t.test('the same unknown key at the same moment costs one look-up', async (t) => {
  const [secret = ''] = unknownKeys(1)
  const from = backend.lookUps()
  t.strictSame([...(await flood(Array.from({ length: 64 }, () => secret))).keys()], [401])
  t.equal(backend.lookUps() - from, 1)
})
