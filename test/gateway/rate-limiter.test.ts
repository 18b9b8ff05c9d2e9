import { connect as connectTo, createServer } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { CircuitBreakers } from '../../gateway/rate-limit/circuit-breaker.ts'
import { rateLimitHeaders } from '../../gateway/rate-limit/headers.ts'
import {
  type Allowance,
  isOverLimit,
  type RateLimiter,
  WINDOW_MS,
} from '../../gateway/rate-limit/limiter.ts'
import { createLocalRateLimiter } from '../../gateway/rate-limit/local-limiter.ts'
import { parseRedisAddress } from '../../gateway/rate-limit/redis-address.ts'
import { connectRedis } from '../../gateway/rate-limit/redis-store.ts'
import { matches, rejectsWith } from '../fixtures/matches.ts'
import { recordLog } from '../fixtures/recorded-log.ts'
import { listen } from '../fixtures/servers/listen.ts'
import { connectRateLimiter, startRedis } from '../fixtures/servers/redis.ts'
import { until } from '../fixtures/service/until.ts'

const LIMIT = 600
const DAY_MS = 24 * 3_600_000
let keyCount = 0
const newKey = () => `key_${++keyCount}`

async function connect(t: Test, url: string, onOutage: 'local' | 'deny' = 'local') {
  const rateLimiter = connectRateLimiter(t, url, { onOutage })
  await untilExact(rateLimiter)
  return rateLimiter
}

const untilExact = (rateLimiter: RateLimiter) =>
  until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis', 5_000)

async function consumeMany(
  rateLimiter: RateLimiter,
  key: string,
  calls: number,
): Promise<Allowance[]> {
  return Promise.all(Array.from({ length: calls }, () => rateLimiter.consume(key, LIMIT)))
}

const admittedOf = (allowances: Allowance[]) =>
  allowances.filter((allowance) => !isOverLimit(allowance))

t.test(
  'without Redis, each call has its own number, and rejected calls are not counted',
  async (t) => {
    const rateLimiter = createLocalRateLimiter()
    t.teardown(() => rateLimiter.close())
    const allowances = await consumeMany(rateLimiter, 'key_1', LIMIT + 5)
    t.equal(admittedOf(allowances).length, LIMIT)
    t.strictSame(
      allowances.slice(0, 3).map(({ used }) => used),
      [1, 2, 3],
    )
    t.equal(
      (await rateLimiter.consume('key_1', LIMIT + 1)).used,
      LIMIT + 1,
      'a raised limit admits another call',
    )
    t.equal((await rateLimiter.consume('key_2', LIMIT)).used, 1, 'another key has its own window')
  },
)

t.test(
  'two gateways share one window, number each call once, and allow exactly the limit',
  async (t) => {
    const redis = await startRedis(t)
    const [a, b] = [await connect(t, redis.url), await connect(t, redis.url)]
    const key = newKey()
    const allowances = (
      await Promise.all([consumeMany(a, key, 350), consumeMany(b, key, 350)])
    ).flat()
    const admitted = admittedOf(allowances)
    t.equal(admitted.length, LIMIT)
    t.equal(new Set(admitted.map(({ used }) => used)).size, LIMIT)
    t.equal(new Set(allowances.map(({ windowEndsAt }) => windowEndsAt)).size, 1)
    t.notOk(allowances.some(({ degraded }) => degraded))
    t.equal(
      await redis.client.get(`rate-limit:{${key}}`),
      String(LIMIT),
      'rejected calls are not counted',
    )
  },
)

t.test(
  'each call is compared with its own limit, even if calls of the same turn have other limits',
  async (t) => {
    const redis = await startRedis(t)
    const rateLimiter = await connect(t, redis.url)
    const key = newKey()
    const allowances = await Promise.all(
      [LIMIT, LIMIT, 2, LIMIT].map((limit) => rateLimiter.consume(key, limit)),
    )
    t.strictSame(
      allowances.map(({ used, limit }) => [used, limit]),
      [
        [1, LIMIT],
        [2, LIMIT],
        [3, 2],
        [3, LIMIT],
      ],
    )
  },
)

t.test('a window is reported once after it has changed, with its latest count', async (t) => {
  const redis = await startRedis(t)
  const alone = createLocalRateLimiter()
  t.teardown(() => alone.close())
  for (const rateLimiter of [alone, await connect(t, redis.url)]) {
    const [first, second] = [newKey(), newKey()]
    await consumeMany(rateLimiter, first, 3)
    await rateLimiter.consume(second, LIMIT)
    const { windowEndsAt } = await rateLimiter.consume(first, LIMIT - 1)
    const changed = { keyId: first, used: 4, limit: LIMIT - 1, endsAt: windowEndsAt }
    matches(t, rateLimiter.takeChanged(1), [changed])
    await rateLimiter.consume(first, LIMIT)
    matches(t, rateLimiter.takeChanged(9), [
      { keyId: second, used: 1 },
      { keyId: first, used: 5 },
    ])
    t.strictSame(rateLimiter.takeChanged(9), [])
    await consumeMany(rateLimiter, second, LIMIT)
    const full = [{ keyId: second, used: LIMIT }]
    matches(t, rateLimiter.takeChanged(9), full, 'rejected calls are not reported')
  }
})

t.test('a script that Redis has discarded is loaded again without a failed call', async (t) => {
  const redis = await startRedis(t)
  const rateLimiter = await connect(t, redis.url)
  const key = newKey()
  for (let call = 1; call <= 20; call++) {
    await redis.client.script('FLUSH')
    matches(t, await rateLimiter.consume(key, LIMIT), { used: call, degraded: false })
  }
})

t.test(
  'after Redis was emptied, a counter continues from the value that a gateway last knew',
  async (t) => {
    const redis = await startRedis(t)
    const [a, b] = [await connect(t, redis.url), await connect(t, redis.url)]
    const key = newKey()
    const [first] = await consumeMany(a, key, 100)
    await redis.client.flushall()
    matches(t, await a.consume(key, LIMIT), { used: 101, windowEndsAt: first?.windowEndsAt })

    await redis.client.flushall()
    matches(
      t,
      await b.consume(key, LIMIT),
      { used: 1 },
      'the gateway had no count, and opened a window',
    )
    matches(
      t,
      await a.consume(key, LIMIT),
      { used: 103, windowEndsAt: first?.windowEndsAt },
      'the older window applies, with the calls of both gateways',
    )
    matches(t, await b.consume(key, LIMIT), { used: 104, windowEndsAt: first?.windowEndsAt })
  },
)

// Regression: calls were counted twice after a cluster had moved a slot, because its windows then ended
// some milliseconds later.
t.test(
  'a counter whose expiry shifted, as when a cluster moves it, continues its count',
  async (t) => {
    const redis = await startRedis(t)
    const [a, b] = [await connect(t, redis.url), await connect(t, redis.url)]
    const key = newKey()
    const [first] = await consumeMany(a, key, 100)
    await consumeMany(b, key, 50)
    for (const [index, shiftMs] of [40, -40, 900, -900].entries()) {
      const end = await redis.client.pexpiretime(`rate-limit:{${key}}`)
      await redis.client.pexpireat(`rate-limit:{${key}}`, end + shiftMs)
      matches(t, await a.consume(key, LIMIT), { used: 151 + 2 * index }, `${shiftMs} ms`)
      matches(t, await b.consume(key, LIMIT), { used: 152 + 2 * index })
    }
    const { windowEndsAt } = await a.consume(key, LIMIT)
    t.ok(Math.abs(windowEndsAt - (first?.windowEndsAt ?? 0)) <= 2_000)
  },
)

for (const fault of ['stopped', 'killed'] as const) {
  t.test(
    `while Redis is ${fault}, calls are counted in the gateway, and added to the counter in Redis afterwards`,
    async (t) => {
      const redis = await startRedis(t)
      const [a, b] = [await connect(t, redis.url), await connect(t, redis.url)]
      const key = newKey()
      const [first] = await consumeMany(a, key, 10)
      await b.consume(key, LIMIT)
      if (fault === 'stopped') redis.signal('SIGSTOP')
      else await redis.kill()

      const during = await consumeMany(a, key, 20)
      t.ok(during.every(({ degraded }) => degraded))
      t.ok(during.every(({ windowEndsAt }) => windowEndsAt === first?.windowEndsAt))
      t.equal(a.state(), 'degraded')
      const later = await consumeMany(a, key, 5)
      t.equal(later.at(-1)?.used, 35)
      await b.consume(newKey(), LIMIT)
      t.equal(b.state(), 'degraded')
      await consumeMany(b, key, 7)

      if (fault === 'stopped') redis.signal('SIGCONT')
      else await redis.start()
      await Promise.all([untilExact(a), untilExact(b)])
      const after = await a.consume(key, LIMIT)
      t.notOk(after.degraded)
      t.equal(after.windowEndsAt, first?.windowEndsAt)
      const total = await b.consume(key, LIMIT)
      // There were 11 calls before the outage, 25 and 7 during it, and 2 after it. The 20 calls in progress when it
      // began may be counted twice. A Redis that lost its data may miss the first call of `b`, which `a` did not
      // know.
      t.ok(total.used >= 44 && total.used <= 45 + 20, `${total.used} counted`)
    },
  )
}

// Regression: the calls that a gateway had counted itself were not added to an older window of another gateway. The
// key could then exceed its limit by these calls.
t.test(
  'calls that a gateway counted during an outage are added to an older window of another gateway',
  async (t) => {
    const redis = await startRedis(t)
    const rateLimiter = await connect(t, redis.url)
    const key = newKey()
    await redis.client.config('SET', 'maxmemory', '1')
    await consumeMany(rateLimiter, key, 10)
    await redis.client.config('SET', 'maxmemory', '0')
    // The other gateway opened its window a minute earlier, counted three calls, and has reported them.
    await redis.client.set(`rate-limit:{${key}}`, 3, 'PX', WINDOW_MS - 60_000)
    await untilExact(rateLimiter)
    const after = await rateLimiter.consume(key, LIMIT)
    matches(t, after, { used: 14, degraded: false })
    t.ok(after.windowEndsInMs <= WINDOW_MS - 60_000)
    matches(t, await rateLimiter.consume(key, LIMIT), { used: 15 }, 'they are added once')
  },
)

t.test('during an outage, calls beyond the limit are not counted', async (t) => {
  const redis = await startRedis(t)
  const rateLimiter = await connect(t, redis.url)
  const key = newKey()
  await redis.client.config('SET', 'maxmemory', '1')
  const calls = Array.from({ length: 8 }, () => rateLimiter.consume(key, 5))
  t.equal(admittedOf(await Promise.all(calls)).length, 5)
  t.equal(rateLimiter.counts.callsCountedLocally, 5)
  await redis.client.config('SET', 'maxmemory', '0')
  await untilExact(rateLimiter)
  t.equal((await rateLimiter.consume(key, LIMIT)).used, 6)
})

t.test('a report of calls that Redis rejects is sent again', async (t) => {
  const redis = await startRedis(t)
  const [a, b] = [await connect(t, redis.url), await connect(t, redis.url)]
  const key = newKey()
  await consumeMany(b, key, 20)
  await redis.client.config('SET', 'maxmemory', '1')
  await consumeMany(a, key, 10)
  await redis.client.config('SET', 'maxmemory', '0')
  await untilExact(a)
  await redis.client.config('SET', 'maxmemory', '1')
  matches(t, await a.consume(key, LIMIT), { used: 11, degraded: true })
  await redis.client.config('SET', 'maxmemory', '0')
  await untilExact(a)
  matches(t, await a.consume(key, LIMIT), { used: 32, degraded: false })
})

// Regression: a gateway that had learned the window's end before the clock was set back kept this end: the key could be
// rejected for a day.
t.test('a window ends within an hour even if the clock of Redis is set back', async (t) => {
  const redis = await startRedis(t)
  const clock = await startClockProxy(t, redis.port)
  const rateLimiter = await connect(t, `redis://127.0.0.1:${clock.port}`)
  const key = newKey()
  clock.setAhead(DAY_MS)
  const [first] = await consumeMany(rateLimiter, key, 10)
  const counter = `rate-limit:{${key}}`
  t.equal(first?.windowEndsAt, (await redis.client.pexpiretime(counter)) + DAY_MS)
  await redis.client.pexpireat(counter, first?.windowEndsAt ?? 0)
  clock.setAhead(0)
  const after = await rateLimiter.consume(key, LIMIT)
  matches(t, after, { used: 11, windowEndsInMs: WINDOW_MS })

  clock.setAhead(DAY_MS)
  await consumeMany(rateLimiter, key, 9)
  await redis.client.flushall()
  clock.setAhead(0)
  const counted = await rateLimiter.consume(key, LIMIT)
  matches(t, counted, { used: 21, windowEndsInMs: WINDOW_MS }, 'the known count still applies')
})

t.test('a window that has ended by the clock of Redis does not continue', async (t) => {
  const redis = await startRedis(t)
  const clock = await startClockProxy(t, redis.port)
  const rateLimiter = await connect(t, `redis://127.0.0.1:${clock.port}`)
  const key = newKey()
  await consumeMany(rateLimiter, key, 10)
  await redis.client.pexpire(`rate-limit:{${key}}`, 30_000)
  clock.setAhead(-60_000)
  await rateLimiter.consume(key, LIMIT)
  await redis.client.del(`rate-limit:{${key}}`)
  const opened = await rateLimiter.consume(key, LIMIT)
  matches(t, opened, { used: 1, windowEndsInMs: WINDOW_MS })
})

t.test('with the policy deny, calls get 503 during an outage', async (t) => {
  const redis = await startRedis(t)
  const rateLimiter = await connect(t, redis.url, 'deny')
  redis.signal('SIGSTOP')
  const unavailable = { code: 'service_unavailable', status: 503, headers: { 'retry-after': '1' } }
  await rejectsWith(t, rateLimiter.consume('key_1', LIMIT), unavailable)
  await rejectsWith(t, rateLimiter.consume('key_1', LIMIT), unavailable)
  redis.signal('SIGCONT')
  await untilExact(rateLimiter)
  matches(t, await rateLimiter.consume('key_1', LIMIT), { degraded: false })
})

t.test(
  'while Redis is a read-only replica or is full, the gateway counts calls itself',
  async (t) => {
    const redis = await startRedis(t)
    const rateLimiter = await connect(t, redis.url)
    await redis.client.replicaof('127.0.0.1', redis.port + 1)
    matches(t, await rateLimiter.consume('key_1', LIMIT), { degraded: true })
    await redis.client.replicaof('NO', 'ONE')
    await untilExact(rateLimiter)
    matches(t, await rateLimiter.consume('key_1', LIMIT), { used: 2, degraded: false })

    await redis.client.config('SET', 'maxmemory', '1')
    matches(t, await rateLimiter.consume('key_1', LIMIT), { degraded: true })
    await redis.client.config('SET', 'maxmemory', '0')
    await untilExact(rateLimiter)
    matches(t, await rateLimiter.consume('key_1', LIMIT), { degraded: false })
  },
)

const UNUSABLE: Record<string, (redis: Redis, name: string) => Promise<unknown>> = {
  'of another type': (redis, name) => redis.multi().del(name).hset(name, 'field', '1').exec(),
  'not a number': (redis, name) => redis.set(name, 'none', 'KEEPTTL'),
  'a negative number': (redis, name) => redis.set(name, '-100', 'KEEPTTL'),
  'too large a number': (redis, name) => redis.set(name, '9223372036854775807', 'KEEPTTL'),
  'a number that is not exact in Lua': (redis, name) =>
    redis.set(name, '9007199254740993', 'KEEPTTL'),
}

// Regression: one unusable counter made the script call fail for all keys of the same turn, which opened
// the breaker.
for (const onOutage of ['local', 'deny'] as const) {
  t.test(`policy ${onOutage}: an unusable counter affects only its own key`, async (t) => {
    const redis = await startRedis(t)
    const { log, lines } = recordLog<object>()
    const rateLimiter = connectRateLimiter(t, redis.url, { onOutage, log })
    await untilExact(rateLimiter)
    const [bad, good] = [newKey(), newKey()]
    const [first] = await consumeMany(rateLimiter, bad, 10)
    await consumeMany(rateLimiter, good, 10)
    for (const [index, [kind, spoil]] of Object.entries(UNUSABLE).entries()) {
      await spoil(redis.client, `rate-limit:{${bad}}`)
      const [spoiled, others] = await Promise.all([
        rateLimiter.consume(bad, LIMIT),
        consumeMany(rateLimiter, good, 5),
      ])
      const used = 11 + index
      const expected = { used, degraded: false, windowEndsAt: first?.windowEndsAt }
      matches(t, spoiled, expected, `a counter that is ${kind}`)
      t.strictSame(
        others.map(({ used, degraded }) => [used, degraded]),
        [1, 2, 3, 4, 5].map((call) => [10 + 5 * index + call, false]),
      )
    }
    t.equal(rateLimiter.counts.outages, 0)
    t.equal(rateLimiter.counts.countersReplaced, Object.keys(UNUSABLE).length)
    matches(t, lines[1], { keyId: bad, counter: `rate-limit:{${bad}}` }, 'the log names the key')
  })
}

t.test(
  'a counter that expires later than any window can end gets the known end of its window, or a new window',
  async (t) => {
    const redis = await startRedis(t)
    const rateLimiter = await connect(t, redis.url)
    const [known, unknown] = [newKey(), newKey()]
    const [first] = await consumeMany(rateLimiter, known, 10)
    for (const key of [known, unknown]) {
      await redis.client.incrby(`rate-limit:{${key}}`, 2)
      await redis.client.expire(`rate-limit:{${key}}`, 10 ** 15)
    }
    matches(t, await rateLimiter.consume(known, LIMIT), {
      used: 13,
      windowEndsAt: first?.windowEndsAt,
    })
    const { used, windowEndsInMs } = await rateLimiter.consume(unknown, LIMIT)
    t.strictSame([used, windowEndsInMs], [3, 3_600_000])
  },
)

// Regression: timers fired before the replies that had arrived during the stall were read.
t.test('a stall of the event loop is not treated as an outage of Redis', async (t) => {
  const redis = await startRedis(t)
  const rateLimiter = await connect(t, redis.url, 'deny')
  const key = newKey()
  const calls: Promise<Allowance>[] = []
  for (let stall = 0; stall < 4; stall++) {
    calls.push(...Array.from({ length: 5 }, () => rateLimiter.consume(key, LIMIT)))
    // The calls of a turn are sent at its end.
    await setImmediate()
    block(600)
    await setImmediate()
  }
  t.strictSame(
    (await Promise.all(calls)).map(({ used, degraded }) => [used, degraded]),
    calls.map((_, index) => [index + 1, false]),
  )
  t.equal(rateLimiter.counts.outages, 0)
})

// Regression: the breaker rejected all pending calls with the first error. If Redis had counted such a call, the
// gateway added it to the counter again.
t.test('calls that are pipelined after one that Redis rejects are counted once', async (t) => {
  const redis = await startRedis(t)
  const rateLimiter = await connect(t, redis.url)
  const key = newKey()
  await redis.client.config('SET', 'maxmemory', '1')
  const rejected = rateLimiter.consume(key, LIMIT)
  await setImmediate()
  const counted = rateLimiter.consume(key, LIMIT)
  await redis.client.config('SET', 'maxmemory', '0')
  await Promise.all([rejected, counted])
  t.equal(rateLimiter.peek(key, LIMIT).used, 2)
  await untilExact(rateLimiter)
  await rateLimiter.consume(key, LIMIT)
  t.equal(await redis.client.get(`rate-limit:{${key}}`), '3')
})

t.test('the headers round the end of the window up to a second, at least one from now', (t) => {
  const window = { limit: LIMIT, used: 1, windowEndsAt: 1_800_000_000_001, windowEndsInMs: 0 }
  const headers = rateLimitHeaders({ ...window, degraded: false })
  t.equal(headers[headers.indexOf('x-ratelimit-reset') + 1], '1800000001')
  t.equal(headers[headers.indexOf('ratelimit') + 1], '"hour";r=599;t=1')
  t.end()
})

/**
 * Starts a proxy in front of Redis that makes the clock of Redis appear to be ahead: it changes the times in replies.
 */
async function startClockProxy(t: Test, redisPort: number) {
  let aheadMs = 0
  const server = createServer((client) => {
    const upstream = connectTo(redisPort, '127.0.0.1')
    for (const socket of [client, upstream]) socket.on('error', () => {})
    client.pipe(upstream)
    client.on('close', () => upstream.destroy())
    upstream.on('data', (bytes) => {
      client.write(
        String(bytes).replace(
          /:\d{13}\r/g,
          (time) => `:${Number.parseInt(time.slice(1), 10) + aheadMs}\r`,
        ),
      )
    })
  })
  const port = await listen(t, server)
  return {
    port,
    setAhead(ms: number) {
      aheadMs = ms
    },
  }
}

/** Blocks the event loop. */
function block(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

// Regression: the log said so when one master of a cluster was available again, although others were not.
t.test(
  'the log says that the rate limit is shared once all partitions are available',
  async (t) => {
    const { url } = await startRedis(t)
    const tls = { ca: undefined, cert: undefined, key: undefined }
    const store = connectRedis({ address: parseRedisAddress(url), tls })
    const { log, lines } = recordLog<{ readonly msg: string }>()
    const breakers = new CircuitBreakers(store, 'local', log)
    t.teardown(() => {
      breakers.close()
      store.close()
    })
    await until(() => breakers.state() === 'exact', 'Redis is reached')
    for (const partition of ['one', 'two']) breakers.open(partition, '', new Error('ECONNRESET'))
    await until(() => breakers.state() === 'exact', 'Redis is available again')
    const shared = 'redis is available: the rate limit is shared by all gateways'
    t.strictSame(
      lines.map(({ msg }) => msg).filter((msg) => msg.startsWith('redis is available')),
      [shared, 'redis is available in this partition', shared],
    )
  },
)
