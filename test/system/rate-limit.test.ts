import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { matches } from '../fixtures/matches.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call, type Response } from '../fixtures/service/call.ts'
import { SHARES_REDIS, startSystem } from '../fixtures/service/system.ts'

const redis = await startRedis(t)
const system = await startSystem(t, { gateways: 2, redisUrl: redis.url })
const account = await system.operator.createAccount()
const [firstUrl, secondUrl] = system.gateways.map(({ url }) => url)

t.test(
  'each call at either gateway lowers the remaining calls by one, whatever its response',
  async (t) => {
    const { secret: key } = await system.operator.issueKey(account, { scopes: ['debtors:read'] })
    const calls: [string, Parameters<typeof call>[1], number][] = [
      ['/me', {}, 200],
      ['/debtors', {}, 200],
      ['/invoices', {}, 403],
      ['/nowhere', {}, 404],
      ['/debtors', { method: 'DELETE' }, 405],
      ['/debtors', { method: 'OPTIONS' }, 204],
      ['/debtors', { headers: { accept: 'text/html' } }, 406],
      ['/debtors', { body: { name: 'x' } }, 403],
      ['/debtors?limit=0', {}, 400],
      ['/debtors/none', {}, 404],
      ['/debtors', { method: 'HEAD' }, 200],
    ]
    let reset: unknown
    for (const [index, [path, options, status]] of calls.entries()) {
      const url = index % 2 === 0 ? firstUrl : secondUrl
      const response = await call(`${url}/api/v1${path}`, { ...options, key })
      t.equal(response.status, status, path)
      t.equal(response.headers['x-ratelimit-remaining'], String(599 - index), path)
      t.equal(response.headers['x-ratelimit-limit'], '600', path)
      reset ??= response.headers['x-ratelimit-reset']
      t.equal(response.headers['x-ratelimit-reset'], reset, 'the window keeps its end')
    }
    t.ok(Math.abs(Number(reset) - Date.now() / 1000 - 3600) < 60)
  },
)

t.test('of 700 concurrent calls to two gateways, exactly 600 are admitted', async (t) => {
  const { secret: key } = await system.operator.issueKey(account)
  const dispatcher = new Agent({ connections: 64 })
  t.teardown(() => dispatcher.close())
  const responses = await Promise.all(
    Array.from({ length: 700 }, (_, index) =>
      call(`${index % 2 === 0 ? firstUrl : secondUrl}/api/v1/me`, { key, dispatcher }),
    ),
  )
  const admitted = responses.filter(({ status }) => status === 200)
  const rejected = responses.filter(({ status }) => status === 429)
  t.equal(admitted.length, 600)
  t.equal(rejected.length, 100)
  const remaining = admitted.map(({ headers }) => Number(headers['x-ratelimit-remaining']))
  t.strictSame(
    remaining.toSorted((a, b) => b - a),
    Array.from({ length: 600 }, (_, n) => 599 - n),
  )
  for (const response of rejected) checkRejection(t, response, 600)
})

t.test('the limit of a key is the same in /me, in the headers and in the 429', async (t) => {
  const { secret: key } = await system.operator.issueKey(account, { rateLimit: 2 })
  t.equal((await call(`${firstUrl}/api/v1/me`, { key })).json.key.rate_limit, 2)
  t.equal((await call(`${secondUrl}/api/v1/me`, { key })).status, 200)
  checkRejection(t, await call(`${firstUrl}/api/v1/me`, { key }), 2)
})

t.test(
  'a rejected key stores nothing in Redis, and every count expires',
  { skip: SHARES_REDIS },
  async (t) => {
    const namesOfCounts = async () => {
      const names = await redis.client.keys('*')
      return names.filter((name) => !name.startsWith('rate-limit-probe:')).toSorted()
    }
    const { id, secret } = await system.operator.issueKey(account)
    const revoked = await system.operator.issueKey(account)
    await system.operator.revokeKey(revoked.id)
    const before = await namesOfCounts()
    const rejected = [mintApiKey().secret, revoked.secret, `${secret}x`, 'not a key at all']
    for (const key of rejected) {
      for (const url of [firstUrl, secondUrl])
        t.equal((await call(`${url}/api/v1/me`, { key })).status, 401)
    }
    t.strictSame(await namesOfCounts(), before)
    t.equal((await call(`${firstUrl}/api/v1/me`, { key: secret })).status, 200)
    const names = await namesOfCounts()
    t.strictSame(names, [...before, `rate-limit:{${id}}`].toSorted())
    for (const name of names) {
      matches(t, name, /^rate-limit:\{key_[0-9A-Z]{26}\}$/)
      t.ok((await redis.client.pttl(name)) > 0, `${name} expires`)
    }
  },
)

function checkRejection(t: Test, response: Response, limit: number): void {
  const seconds = response.headers['retry-after']
  matches(t, response, {
    status: 429,
    headers: {
      'content-type': /^application\/problem\+json/,
      'x-ratelimit-remaining': '0',
      'x-ratelimit-limit': String(limit),
      'retry-after': /^[1-9]\d*$/,
    },
    json: {
      code: 'rate_limit_exceeded',
      detail: `Too many requests: rate limit of ${limit} requests per hour reached, try again in ${seconds} seconds.`,
      retryable: true,
    },
  })
}
