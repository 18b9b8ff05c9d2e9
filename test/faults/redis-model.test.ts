/**
 * Random faults of Redis occur while calls are made through two gateways. Afterwards, the counter of each key is
 * compared with a model of the calls: unless a counter was corrupted, no call is counted twice, and only calls whose
 * reply was lost may be missing.
 *
 * `RUNS=` sets the number of sequences for each policy, and `SEED=` selects other sequences.
 */
import { setImmediate } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { type Allowance, isOverLimit, type RateLimiter } from '../../gateway/rate-limit/limiter.ts'
import { fc, SEED } from '../fixtures/properties.ts'
import { connectRateLimiter, startRedis } from '../fixtures/servers/redis.ts'
import { until } from '../fixtures/service/until.ts'
import { startTcpProxy, type TcpProxy } from '../gateway/fixtures/tcp-proxy.ts'

const RUNS = Number(process.env['RUNS'] ?? 6)
const LIMIT = 25
const KEYS = 3
/** With these values, Redis takes about 200 ms to load its data, and responds with an error until then. */
const BALLAST_KEYS = 200
const LOAD_DELAY_US = 1_000

interface Calls {
  readonly gateway: 0 | 1
  readonly key: number
  readonly count: number
  readonly isAwaited: boolean
}

interface Step {
  readonly fault: Fault
  /** The key whose counter is corrupted, or the gateway whose connection fails. */
  readonly subject: number
  /** The calls that are made while the fault lasts. */
  readonly calls: readonly Calls[]
  /** Whether the next step waits until both gateways count in Redis again. */
  readonly isAwaited: boolean
}

const FAULTS = [
  'none',
  'stall',
  'wrong type',
  'no number',
  'out of memory',
  'loading',
  'read only',
  'no replicas',
  'busy',
  'lost replies',
  'silence',
] as const

type Fault = (typeof FAULTS)[number]

/** Faults that break no connection, so that the gateways know which calls Redis has counted. */
const CONNECTED: ReadonlySet<Fault> = new Set(
  FAULTS.filter((fault) => !/read only|lost replies|silence/.test(fault)),
)

const calls = fc.record<Calls>({
  gateway: fc.constantFrom(0, 1),
  key: fc.nat(KEYS - 1),
  count: fc.integer({ min: 1, max: 8 }),
  isAwaited: fc.boolean(),
})

const steps = fc.array(
  fc.record<Step>({
    fault: fc.constantFrom(...FAULTS),
    subject: fc.nat(KEYS - 1),
    calls: fc.array(calls, { minLength: 1, maxLength: 5 }),
    isAwaited: fc.boolean(),
  }),
  { minLength: 6, maxLength: 12, size: 'max' },
)

/** What the test knows about the calls of one key. */
class KeyModel {
  admitted = 0
  /** The counts that Redis returned for admitted calls. */
  exactNumbers: number[] = []
  /** Calls that Redis may or may not have counted, because its reply may be lost. */
  unknown = 0
  /** For each gateway, the number of calls that it counted itself and that Redis has not confirmed. */
  readonly unconfirmed: [number, number] = [0, 0]
  /** The number of counts that a corrupted counter lost, because the gateway that replaced it did not know them. */
  lost = 0
  isCorrupted = false
  /** Whether a gateway has counted calls itself. The other gateway does not know these calls. */
  isCountedSeparately = false
  /** For each gateway, the highest count that it knows. */
  readonly known: [number, number] = [0, 0]
}

class Scenario {
  readonly #redis: Redis
  readonly #other: Redis
  readonly #gateways: readonly RateLimiter[]
  readonly #proxies: readonly TcpProxy[]
  readonly #prefix: string
  readonly models = Array.from({ length: KEYS }, () => new KeyModel())
  /** For each gateway, how many faults its connection has had. */
  readonly #connectionFaults = [0, 0]
  #pending: Promise<void>[] = []
  /** Whether gateways may still regard Redis as unavailable. */
  #mayBeDegraded = false

  constructor(setup: Setup, prefix: string) {
    this.#redis = setup.redis
    this.#other = setup.other
    this.#gateways = setup.gateways
    this.#proxies = setup.proxies
    this.#prefix = prefix
  }

  nameOf(key: number): string {
    return `rate-limit:{${this.#prefix}${key}}`
  }

  async run(step: Step): Promise<void> {
    const { fault, calls, isAwaited } = step
    if (!['none', 'stall', 'wrong type', 'no number'].includes(fault)) this.#mayBeDegraded = true
    const end = await this.#begin(step)
    for (const one of calls) {
      const consumed = this.#consume(one, CONNECTED.has(fault))
      if (one.isAwaited) await consumed
      else this.#pending.push(consumed)
      // The gateway sends calls at the end of a turn of the event loop, so the stall must begin after that turn.
      if (fault === 'stall') await setImmediate().then(() => block(300))
    }
    await end()
    await Promise.all(this.#pending)
    this.#pending = []
    if (isAwaited) await this.untilCountedInRedis()
  }

  async untilCountedInRedis(): Promise<void> {
    for (const gateway of this.#gateways) {
      await until(() => gateway.state() === 'exact', 'the rate limiter counts in Redis again')
    }
    this.#mayBeDegraded = false
  }

  async #consume({ gateway, key, count }: Calls, isConnected: boolean): Promise<void> {
    const model = this.models[key]
    const limiter = this.#gateways[gateway]
    if (model === undefined || limiter === undefined) return
    const before = this.#connectionFaults[gateway]
    const mustBeExact = !this.#mayBeDegraded
    const results = await Promise.allSettled(
      Array.from({ length: count }, () => limiter.consume(`${this.#prefix}${key}`, LIMIT)),
    )
    const isUnknown = !isConnected || this.#connectionFaults[gateway] !== before
    if (isUnknown) {
      model.unknown += model.unconfirmed[gateway]
      model.unconfirmed[gateway] = 0
    }
    for (const result of results) {
      const allowance = result.status === 'fulfilled' ? result.value : undefined
      if (mustBeExact && allowance?.degraded !== false) {
        throw new Error(
          'a gateway treated a fault of one key, or of this process, as an outage of Redis',
        )
      }
      if (isUnknown && allowance?.degraded !== false) model.unknown++
      if (allowance !== undefined) recordAllowance(model, gateway, allowance)
    }
  }

  /** Begins the fault. Returns the function that ends it. */
  async #begin({ fault, subject }: Step): Promise<() => Promise<unknown>> {
    const redis = this.#redis
    const proxy = this.#proxies[subject % 2]
    switch (fault) {
      case 'none':
      case 'stall':
        return async () => {}
      case 'wrong type':
      case 'no number':
        await this.#corrupt(subject, fault)
        return async () => {}
      case 'out of memory':
        await redis.config('SET', 'maxmemory', '1')
        return () => redis.config('SET', 'maxmemory', '0')
      case 'no replicas':
        await redis.config('SET', 'min-replicas-to-write', '1')
        return () => redis.config('SET', 'min-replicas-to-write', '0')
      case 'loading': {
        const loaded = this.#other.call('DEBUG', 'RELOAD')
        return () => loaded
      }
      case 'busy': {
        const killed = this.#other.eval('while true do end', 0).catch(() => {})
        await until(() => isBusy(redis), 'Redis is busy')
        return async () => {
          await redis.script('KILL')
          await killed
        }
      }
      case 'read only':
        // The gateways reconnect after this error, and lose the replies to other calls.
        this.#countConnectionFault(0, 1)
        await redis.replicaof('127.0.0.1', 1)
        return () => redis.replicaof('NO', 'ONE')
      case 'lost replies':
      case 'silence':
        this.#countConnectionFault(subject % 2)
        proxy?.set(fault === 'silence' ? 'drop all' : 'lose replies')
        return async () => {
          await Promise.all(this.#pending)
          proxy?.set('pass')
        }
    }
  }

  #countConnectionFault(...gateways: readonly number[]): void {
    for (const gateway of gateways) {
      this.#connectionFaults[gateway] = (this.#connectionFaults[gateway] ?? 0) + 1
    }
  }

  async #corrupt(key: number, fault: 'wrong type' | 'no number'): Promise<void> {
    const model = this.models[key]
    const name = this.nameOf(key)
    if (model === undefined) return
    await this.untilCountedInRedis()
    const count = Number((await this.#redis.get(name).catch(() => 0)) ?? 0)
    if (Number.isNaN(count)) return
    model.isCorrupted = true
    const known = model.isCountedSeparately ? 0 : Math.min(...model.known)
    model.lost += Math.max(0, count - known)
    if (fault === 'no number') await this.#redis.set(name, 'corrupted', 'KEEPTTL')
    else await this.#redis.multi().del(name).rpush(name, 'corrupted').exec()
  }
}

function recordAllowance(model: KeyModel, gateway: 0 | 1, allowance: Allowance): void {
  if (!isOverLimit(allowance)) {
    model.admitted++
    model.unconfirmed[gateway] = allowance.degraded ? model.unconfirmed[gateway] + 1 : 0
  }
  if (!isOverLimit(allowance) && !allowance.degraded) model.exactNumbers.push(allowance.used)
  model.isCountedSeparately ||= allowance.degraded
  model.known[gateway] = Math.max(model.known[gateway], Math.min(LIMIT, allowance.used))
}

async function isBusy(redis: Redis): Promise<boolean> {
  return redis.get('any').then(
    () => false,
    (error: Error) => error.message.startsWith('BUSY'),
  )
}

/** Blocks the event loop. */
function block(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

interface Setup {
  readonly redis: Redis
  /** A second connection, for commands that block. */
  readonly other: Redis
  readonly gateways: readonly RateLimiter[]
  readonly proxies: readonly TcpProxy[]
}

async function start(t: Test, onOutage: 'local' | 'deny'): Promise<Setup> {
  const settings = ['--enable-debug-command', 'yes', '--busy-reply-threshold', '5']
  const loading = ['--key-load-delay', `${LOAD_DELAY_US}`]
  const events = ['--loading-process-events-interval-bytes', '1024']
  const { client: redis, port } = await startRedis(t, [...settings, ...loading, ...events])
  const other = redis.duplicate()
  t.teardown(() => other.disconnect())
  for (let key = 0; key < BALLAST_KEYS; key++) await redis.set(`ballast-${key}`, 'x'.repeat(64))
  const proxies = [await startTcpProxy(t, port), await startTcpProxy(t, port)]
  const gateways = proxies.map((proxy) =>
    connectRateLimiter(t, `redis://127.0.0.1:${proxy.port}`, { onOutage }),
  )
  return { redis, other, gateways, proxies }
}

for (const onOutage of ['local', 'deny'] as const) {
  t.test(
    `policy ${onOutage}: after any faults, each counter agrees with the model of its calls`,
    async (t) => {
      const setup = await start(t, onOutage)
      let run = 0
      const totals = { admitted: 0, unknown: 0, lost: 0 }
      const property = fc.asyncProperty(steps, async (sequence) => {
        const scenario = new Scenario(setup, `${onOutage}_${++run}_`)
        await scenario.untilCountedInRedis()
        for (const step of sequence) await scenario.run(step)
        await scenario.untilCountedInRedis()
        // With its next call, each gateway adds to Redis the calls that it has counted itself.
        for (const key of [0, 1, 2]) {
          for (const gateway of [0, 1] as const) {
            await scenario.run({
              ...{ fault: 'none', subject: 0, isAwaited: true },
              calls: [{ gateway, key, count: 1, isAwaited: true }],
            })
          }
        }
        for (const [key, model] of scenario.models.entries()) {
          const counted = Number(await setup.redis.get(scenario.nameOf(key)))
          assertCounted(model, counted, onOutage)
          totals.admitted += model.admitted
          totals.unknown += model.unknown
          totals.lost += model.lost
        }
      })
      await fc.assert(property, {
        numRuns: RUNS,
        endOnFailure: true,
        includeErrorInReport: true,
      })
      t.comment(`seed ${SEED}: ${RUNS} sequences, ${JSON.stringify(totals)}`)
      t.ok(totals.admitted > 0)
    },
  )
}

/**
 * If no reply was lost and no counter was corrupted, the counter equals the number of admitted calls. With the policy
 * `deny`, a call whose reply was lost is rejected, but may be counted. With `local`, it is admitted, but may not be
 * counted. A gateway cannot know which calls the other gateway had counted itself before a counter was corrupted.
 */
function assertCounted(model: KeyModel, counted: number, onOutage: 'local' | 'deny'): void {
  const { admitted, unknown, lost, exactNumbers, isCorrupted } = model
  const [fewest, most] =
    onOutage === 'local'
      ? [admitted - unknown - lost, admitted + lost]
      : [admitted - lost, admitted + unknown]
  const state = JSON.stringify({ ...model, counted })
  if (counted < fewest || counted > most)
    throw new Error(`the counter is not ${fewest} to ${most}: ${state}`)
  if (exactNumbers.length > LIMIT + lost)
    throw new Error(`more calls than the limit were admitted: ${state}`)
  const isRepeated = new Set(exactNumbers).size < exactNumbers.length
  if (isRepeated && !isCorrupted) throw new Error(`two calls have the same count: ${state}`)
}
