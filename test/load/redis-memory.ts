/** `node test/load/redis-memory.ts [KEYS]`: measures how much memory Redis uses for an active key. */
import { connectRateLimiter, startRedis } from '../fixtures/servers/redis.ts'
import { until } from '../fixtures/service/until.ts'
import { Cleanup } from './machine.ts'

const keys = Number(process.argv[2] ?? 100_000)
const cleanup = new Cleanup()
const { url, client } = await startRedis(cleanup)
const rateLimiter = connectRateLimiter(cleanup, url)
await until(() => rateLimiter.state() === 'exact', 'calls are counted in Redis')

const usedMemory = async () =>
  Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))?.[1] ?? Number.NaN)
const before = await usedMemory()
for (let from = 0; from < keys; from += 500) {
  const count = Math.min(500, keys - from)
  const names = Array.from({ length: count }, (_, n) => `key_${String(from + n).padStart(26, '0')}`)
  // On a busy machine, Redis may respond too late, so that the rate limiter counts calls itself for a moment.
  await until(async () => {
    const consumed = await Promise.all(names.map((name) => rateLimiter.consume(name, 600)))
    return consumed.every(({ degraded }) => !degraded)
  }, 'the keys are counted')
}
const perKey = ((await usedMemory()) - before) / keys
process.stdout.write(`${keys} active keys: ${perKey.toFixed(0)} bytes each\n`)
await cleanup.end()
