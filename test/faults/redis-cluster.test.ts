/**
 * Tests the rate limit with a Redis Cluster of six nodes. While a master is unavailable, the gateway counts calls with
 * that master's keys itself, until a replica takes over. While slots move, Redis counts every call once.
 */
import t, { type Test } from 'tap'
import type { RateLimiter } from '../../gateway/rate-limit/limiter.ts'
import { isOverLimit } from '../../gateway/rate-limit/limiter.ts'
import { matches, rejectsWith } from '../fixtures/matches.ts'
import { connectRateLimiter } from '../fixtures/servers/redis.ts'
import { type RedisCluster, startRedisCluster } from '../fixtures/servers/redis-cluster.ts'
import { until } from '../fixtures/service/until.ts'

/** Ten times the promised 300 ms, so that a busy machine does not fail the test. */
const SETTLED_MS_MAX = 10 * 300
const LIMIT = 1_000_000
const KEYS = Array.from({ length: 24 }, (_, n) => `key_${n}`)

const counterOf = (key: string) => `rate-limit:{${key}}`

async function open(t: Test) {
  const cluster = await startRedisCluster(t)
  const rateLimiter = connectRateLimiter(t, cluster.url)
  await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis')
  return { cluster, rateLimiter }
}

/**
 * Counts one call of every key in each round, until it is stopped. `numbers` has the count that each call returned, and
 * `local` the keys whose calls the gateway counted itself.
 */
function startCalls(rateLimiter: RateLimiter) {
  const local = new Set<string>()
  const numbers = new Map(KEYS.map((key) => [key, [] as number[]]))
  let slowestMs = 0
  let isOver = false
  const calling = (async () => {
    while (!isOver) {
      const from = performance.now()
      await Promise.all(
        KEYS.map(async (key) => {
          const { used, degraded } = await rateLimiter.consume(key, LIMIT)
          numbers.get(key)?.push(used)
          if (degraded) local.add(key)
        }),
      )
      slowestMs = Math.max(slowestMs, performance.now() - from)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  })()
  return {
    local,
    numbers,
    async stop() {
      isOver = true
      await calling
      return slowestMs
    },
  }
}

const keysAt = ({ initialMasterOf, masters }: RedisCluster, index: number) =>
  KEYS.filter((key) => initialMasterOf(counterOf(key)) === masters[index])

t.test('two gateways together admit exactly the limit', async (t) => {
  const { cluster, rateLimiter } = await open(t)
  const other = connectRateLimiter(t, cluster.url)
  await until(() => other.state() === 'exact', 'the rate limiter counts in Redis')
  const counts = KEYS.flatMap((key) =>
    Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? rateLimiter : other).consume(key, 30)),
  )
  const allowances = await Promise.all(counts)
  t.notOk(allowances.some(({ degraded }) => degraded))
  t.equal(allowances.filter((one) => !isOverLimit(one)).length, KEYS.length * 30)
})

t.test('while a master is unavailable, only its keys are counted by the gateway', async (t) => {
  const { cluster, rateLimiter } = await open(t)
  const calls = startCalls(rateLimiter)
  const lost = keysAt(cluster, 0)
  const [master] = cluster.masters
  const [replica] = cluster.replicas
  await until(() => (calls.numbers.get('key_0')?.length ?? 0) > 20, 'calls flow')
  await master?.kill()
  await until(async () => (await replica?.client.role())?.[0] === 'master', 'a replica takes over')
  const promoted = performance.now()
  await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis again')
  const recoveredMs = performance.now() - promoted
  const rounds = calls.numbers.get('key_0')?.length ?? 0
  await until(() => (calls.numbers.get('key_0')?.length ?? 0) > rounds + 10, 'calls flow')
  const slowestMs = await calls.stop()

  t.ok(slowestMs < SETTLED_MS_MAX)
  t.strictSame(
    [...calls.local].filter((key) => !lost.includes(key)),
    [],
    'Redis counted the calls of all other keys',
  )
  for (const key of KEYS) {
    const numbers = calls.numbers.get(key) ?? []
    if (lost.includes(key)) {
      t.ok((numbers.at(-1) ?? 0) >= numbers.length, `${key}: every call was counted`)
    } else {
      t.strictSame(
        numbers,
        numbers.map((_, index) => index + 1),
        `${key}: each call has its own number`,
      )
    }
  }
  t.comment(
    `the gateway counted ${lost.length} of ${KEYS.length} keys itself, slowest round ` +
      `${slowestMs.toFixed(0)} ms, counted in Redis again ${recoveredMs.toFixed(0)} ms after the promotion`,
  )
})

t.test(
  'with the policy deny, only calls with the keys of the unavailable master are rejected',
  async (t) => {
    const { cluster } = await open(t)
    const rateLimiter = connectRateLimiter(t, cluster.url, { onOutage: 'deny' })
    await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis')
    const [lost = ''] = keysAt(cluster, 0)
    const [kept = ''] = keysAt(cluster, 1)
    await rateLimiter.consume(lost, LIMIT)
    cluster.masters[0]?.signal('SIGSTOP')
    const from = performance.now()
    await rejectsWith(t, rateLimiter.consume(lost, LIMIT), { code: 'service_unavailable' })
    t.ok(performance.now() - from < SETTLED_MS_MAX)
    matches(t, await rateLimiter.consume(kept, LIMIT), { used: 1, degraded: false })
    await rejectsWith(t, rateLimiter.consume(lost, LIMIT), { code: 'service_unavailable' })
    t.equal(rateLimiter.state(), 'degraded')
    cluster.masters[0]?.signal('SIGCONT')
    await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis again')
    matches(t, await rateLimiter.consume(lost, LIMIT), { degraded: false })
  },
)

t.test('while slots move, no call is lost or counted twice', async (t) => {
  const { cluster, rateLimiter } = await open(t)
  const calls = startCalls(rateLimiter)
  const [from, to] = cluster.masters
  const moving = keysAt(cluster, 0).slice(0, 4)
  if (from === undefined || to === undefined) throw new Error('the cluster lacks a master')
  await until(() => (calls.numbers.get('key_0')?.length ?? 0) > 20, 'calls flow')
  for (const key of moving) await cluster.moveSlot(counterOf(key), from, to)
  const rounds = calls.numbers.get('key_0')?.length ?? 0
  await until(() => (calls.numbers.get('key_0')?.length ?? 0) > rounds + 10, 'calls flow')
  await calls.stop()
  t.strictSame([...calls.local], [], 'every call was counted in Redis')
  for (const [key, numbers] of calls.numbers) {
    t.strictSame(
      numbers,
      numbers.map((_, index) => index + 1),
      `${key}: each call has its own number`,
    )
  }
  for (const key of moving) t.ok(await to.client.get(counterOf(key)), `${key} is on its new master`)
})
