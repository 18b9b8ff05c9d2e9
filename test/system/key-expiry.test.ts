import t, { type Test } from 'tap'
import { Client } from 'undici'
import { type RedisServer, startRedis } from '../fixtures/servers/redis.ts'
import { call, type Response } from '../fixtures/service/call.ts'
import { exchangeBytes, startGateway } from '../fixtures/service/gateway.ts'
import { SHARES_REDIS, startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const ALLOWED = '203.0.113.9'
const ELSEWHERE = '198.51.100.7'
/** The time until a key expires. It is doubled if, on a busy machine, the key expires before its first two calls. */
const EXPIRES_AFTER_MS = 500

const redis = await startRedis(t)
const system = await startSystem(t, { gateways: 2, redisUrl: redis.url })
const account = await system.operator.createAccount()
const backends = system.backends.map(({ port }) => `http://127.0.0.1:${port}`).join(',')
const proxied = await startGateway(t, backends, { TRUST_PROXY: '1', REDIS_URL: redis.url })
const forwardedFor = (address: string) => ({ 'x-forwarded-for': address })

/** Calls, with the status that each would get if the key were valid. */
const STATUS_IF_VALID: [status: number, path: string, rateLimit: number][] = [
  [200, '/api/v1/me', 600],
  [403, '/api/v1/invoices', 600],
  [404, '/api/v1/nowhere', 600],
  [429, '/api/v1/me', 1],
]

t.test('a key that expires between two calls on one connection is rejected', async (t) => {
  await expireEverywhere(t)
})

for (const [status, path, rateLimit] of STATUS_IF_VALID) {
  t.test(
    `allowed addresses apply to the next call, which would otherwise get ${status}`,
    async (t) => {
      await restrictBetweenCalls(t, path, rateLimit, status)
    },
  )
}

t.test(
  'expiry and allowed addresses apply while Redis is stopped',
  { skip: SHARES_REDIS },
  async (t) => {
    await withRedisStopped(t, redis, async () => {
      await expireEverywhere(t)
      for (const [status, path, rateLimit] of STATUS_IF_VALID) {
        await restrictBetweenCalls(t, path, rateLimit, status)
      }
    })
  },
)

t.test('each call that a proxy pipelines on one connection is checked separately', async (t) => {
  const { secret } = await system.operator.issueKey(account, {
    allowedAddresses: ['203.0.113.0/24', '2001:db8:7::/48'],
  })
  const addresses = [ALLOWED, ELSEWHERE, '2001:db8:7::1', '2001:db8:8::1', `::ffff:${ALLOWED}`]
  const requests = addresses.map(
    (address, index) =>
      `GET /api/v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\nX-Forwarded-For: ${address}\r\n${index === addresses.length - 1 ? 'Connection: close\r\n' : ''}\r\n`,
  )
  const { text } = await exchangeBytes(proxied.port, requests.join(''))
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)
  t.strictSame(statuses, ['200', '403', '200', '403', '200'])
})

t.test('a client cannot choose its address', async (t) => {
  const { secret: key } = await system.operator.issueKey(account, { allowedAddresses: [ALLOWED] })
  const headers = { ...forwardedFor(ALLOWED), 'x-receivables-client-address': ALLOWED }
  const direct = await call(`${system.url}/api/v1/me`, { key, headers })
  t.equal(direct.json.code, 'address_not_allowed')
  const forged = forwardedFor(`${ALLOWED}, ${ELSEWHERE}`)
  const behind = await call(`${proxied.url}/api/v1/me`, { key, headers: forged })
  t.equal(behind.json.code, 'address_not_allowed')
})

t.test(
  'a call from another address is not counted, and its response shows the limit',
  async (t) => {
    const { secret: key } = await system.operator.issueKey(account, {
      rateLimit: 2,
      scopes: ['debtors:read'],
      allowedAddresses: [ALLOWED],
    })
    const assertRejected = async (remaining: number, resets?: unknown) => {
      for (const path of ['me', 'debtors', 'invoices', 'nowhere', 'me']) {
        const response = await call(`${proxied.url}/api/v1/${path}`, {
          key,
          headers: forwardedFor(ELSEWHERE),
        })
        const { status, headers, json } = response
        t.strictSame(
          { status, json, challenge: headers['www-authenticate'], ...limitOf(response) },
          {
            status: 403,
            json: {
              type: json.type,
              title: 'Address not allowed',
              status: 403,
              detail: 'This key cannot be used from this address.',
              code: 'address_not_allowed',
              request_id: headers['x-request-id'],
              retryable: false,
            },
            challenge: 'Bearer realm="api"',
            ...limitHeaders(2, remaining),
          },
        )
        if (resets !== undefined) t.equal(headers['x-ratelimit-reset'], resets)
      }
    }
    await assertRejected(2)
    const me = { key, headers: forwardedFor(ALLOWED) }
    const allowed = await call(`${proxied.url}/api/v1/me`, me)
    t.equal(allowed.headers['x-ratelimit-remaining'], '1')
    await assertRejected(1, allowed.headers['x-ratelimit-reset'])
    t.equal((await call(`${proxied.url}/api/v1/me`, me)).headers['x-ratelimit-remaining'], '0')
    await assertRejected(0, allowed.headers['x-ratelimit-reset'])
    t.equal((await call(`${proxied.url}/api/v1/me`, me)).status, 429)
    await assertRejected(0, allowed.headers['x-ratelimit-reset'])
  },
)

t.test('the response to a malformed call from another address shows the limit', async (t) => {
  const { secret: key } = await system.operator.issueKey(account, { allowedAddresses: [ALLOWED] })
  const { headers } = await call(`${proxied.url}/api/v1/me`, {
    key,
    headers: forwardedFor(ALLOWED),
  })
  const head = `Host: a\r\nAuthorization: Bearer ${key}\r\nX-Forwarded-For: ${ELSEWHERE}\r\n`
  const malformed = {
    body: `POST /api/v1/debtors HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\nx\r\n`,
    head: `GET /api/v1/me HTTP/1.1\r\n${head}Content-Length: x\r\n\r\n`,
  }
  for (const [what, bytes] of Object.entries(malformed)) {
    const { text } = await exchangeBytes(proxied.port, bytes)
    const field = (name: string) => new RegExp(`\r\n${name}: (.*)\r\n`).exec(text)?.[1]
    t.strictSame(
      [text.split(' ', 2)[1], field('x-ratelimit-remaining'), field('x-ratelimit-reset')],
      ['400', '599', headers['x-ratelimit-reset']],
      `a malformed ${what}`,
    )
  }
})

t.test('GET /me shows when the key expires', async (t) => {
  const expiresAt = new Date(Date.now() + 86_400_000)
  const { secret: key } = await system.operator.issueKey(account, { expiresAt })
  const { json } = await call(`${system.url}/api/v1/me`, { key })
  t.equal(json.key.expires_at, expiresAt.toISOString())
})

/** For each gateway and each call of `STATUS_IF_VALID`, makes a key expire between two calls. */
async function expireEverywhere(t: Test): Promise<void> {
  await Promise.all(
    system.gateways.flatMap(({ url }) =>
      STATUS_IF_VALID.map((valid) => expireBetweenCalls(t, url, valid, EXPIRES_AFTER_MS)),
    ),
  )
}

async function expireBetweenCalls(
  t: Test,
  url: string,
  valid: (typeof STATUS_IF_VALID)[number],
  expiresAfterMs: number,
): Promise<void> {
  const [status, path, rateLimit] = valid
  const scopes = ['debtors:read'] as const
  const expiresAt = new Date(Date.now() + expiresAfterMs)
  const again = () => expireBetweenCalls(t, url, valid, expiresAfterMs * 2)
  const key = await system.operator
    .issueKey(account, { scopes, rateLimit, expiresAt })
    .catch((error: unknown) => {
      if (Date.now() < expiresAt.getTime()) throw error
    })
  if (key === undefined) return again()
  const dispatcher = new Client(url)
  const calls = { key: key.secret, dispatcher }
  await call(`${url}/api/v1/me`, calls)
  const before = await call(url + path, calls)
  await until(() => Date.now() >= expiresAt.getTime(), 'the key expires')
  const after = await call(url + path, calls)
  await dispatcher.close()
  if (before.status === 401) return again()
  t.equal(before.status, status)
  t.strictSame(
    [after.status, after.json.code, after.headers['www-authenticate']],
    [401, 'expired_api_key', 'Bearer realm="api", error="invalid_token"'],
    `${url}${path}`,
  )
}

/** Restricts a key to an address, and then allows others, while a trusted proxy and direct clients are connected. */
async function restrictBetweenCalls(
  t: Test,
  path: string,
  rateLimit: number,
  status: number,
): Promise<void> {
  const key = await system.operator.issueKey(account, { scopes: ['debtors:read'], rateLimit })
  const clients = [system.gateways[0], system.gateways[1], proxied].map((gateway) => {
    const url = gateway?.url ?? ''
    return { url, dispatcher: new Client(url) }
  })
  const outcomesFrom = (headers: Record<string, string>) =>
    Promise.all(
      clients.map(async ({ url, dispatcher }) => {
        const response = await call(url + path, { key: key.secret, headers, dispatcher })
        if (response.json?.code !== 'address_not_allowed') return response.status
        t.equal(response.headers['x-ratelimit-limit'], `${rateLimit}`)
        return 'not allowed'
      }),
    )
  await outcomesFrom(forwardedFor(ELSEWHERE))
  t.strictSame(await outcomesFrom(forwardedFor(ELSEWHERE)), [status, status, status])
  await system.operator.changeKey(key.id, { allowedAddresses: [ALLOWED] })
  t.strictSame(await outcomesFrom(forwardedFor(ELSEWHERE)), [
    'not allowed',
    'not allowed',
    'not allowed',
  ])
  t.strictSame(await outcomesFrom(forwardedFor(ALLOWED)), ['not allowed', 'not allowed', status])
  await system.operator.changeKey(key.id, { allowedAddresses: ['127.0.0.0/8', ELSEWHERE] })
  t.strictSame(await outcomesFrom(forwardedFor(ELSEWHERE)), [status, status, status])
  await Promise.all(clients.map(({ dispatcher }) => dispatcher.close()))
}

async function withRedisStopped(
  t: Test,
  { signal }: RedisServer,
  work: () => Promise<void>,
): Promise<void> {
  signal('SIGSTOP')
  t.teardown(() => signal('SIGCONT'))
  await work()
  signal('SIGCONT')
  const { secret: key } = await system.operator.issueKey(account)
  const countsInRedis = async (url: string) =>
    !String((await call(`${url}/api/v1/me`, { key })).headers['ratelimit-policy']).endsWith(
      'degraded',
    )
  for (const { url } of [...system.gateways, proxied]) {
    await until(() => countsInRedis(url), `${url} counts in Redis again`)
  }
}

/** Returns the rate-limit headers without the times. */
function limitOf({ headers }: Response) {
  return {
    limit: headers['x-ratelimit-limit'],
    remaining: headers['x-ratelimit-remaining'],
    resets: typeof headers['x-ratelimit-reset'],
    policy: headers['ratelimit-policy'],
    rateLimit: String(headers['ratelimit']).replace(/t=\d+$/, 't='),
  }
}

function limitHeaders(limit: number, remaining: number) {
  return {
    limit: `${limit}`,
    remaining: `${remaining}`,
    resets: 'string',
    policy: `"hour";q=${limit};w=3600`,
    rateLimit: `"hour";r=${remaining};t=`,
  }
}
