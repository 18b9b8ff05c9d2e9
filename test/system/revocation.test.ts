import t, { type Test } from 'tap'
import { Client } from 'undici'
import { matches } from '../fixtures/matches.ts'
import { type RedisServer, startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { SHARES_REDIS, type System, startSystem } from '../fixtures/service/system.ts'

const ROUNDS = 50

const redis = await startRedis(t)
const system = await startSystem(t, { gateways: 2, redisUrl: redis.url })
const account = await system.operator.createAccount()

/** Calls, with the status that each would get if the key were valid. */
const STATUS_IF_VALID: [status: number, path: string, rateLimit: number][] = [
  [200, '/api/v1/me', 600],
  [403, '/api/v1/invoices', 600],
  [404, '/api/v1/nowhere', 600],
  [429, '/api/v1/me', 1],
]

for (const [status, path, rateLimit] of STATUS_IF_VALID) {
  t.test(
    `after a revocation, a call on an open connection gets 401 instead of ${status}`,
    async (t) => {
      for (let round = 0; round < ROUNDS; round++) {
        await revokeBetweenCalls(t, system, path, status, rateLimit, round)
      }
    },
  )
}

t.test('a revocation applies while Redis is stopped', { skip: SHARES_REDIS }, async (t) => {
  redis.signal('SIGSTOP')
  t.teardown(() => redis.signal('SIGCONT'))
  for (const [status, path, rateLimit] of STATUS_IF_VALID) {
    await revokeBetweenCalls(t, system, path, status, rateLimit, 0)
    await revokeBetweenCalls(t, system, path, status, rateLimit, 1)
  }
})

t.test('a revocation applies after Redis was emptied', { skip: SHARES_REDIS }, async (t) => {
  redis.signal('SIGCONT')
  for (const [status, path, rateLimit] of STATUS_IF_VALID) {
    await revokeBetweenCalls(t, system, path, status, rateLimit, 0, redis)
    await revokeBetweenCalls(t, system, path, status, rateLimit, 1, redis)
  }
})

t.test(
  'when scopes are restricted or allowed again, this applies from the next call on',
  async (t) => {
    const { secret: key } = await system.operator.issueKey(account, { scopes: ['debtors:read'] })
    const url = `${system.url}/api/v1/debtors`
    for (let round = 0; round < 10; round++) {
      t.equal((await call(url, { key })).status, 200)
      await system.operator.allowScopes(account, ['payments:read'])
      t.equal((await call(url, { key })).status, 403)
      await system.operator.allowScopes(account, null)
    }
  },
)

async function revokeBetweenCalls(
  t: Test,
  { gateways, operator }: System,
  path: string,
  status: number,
  rateLimit: number,
  round: number,
  emptied?: RedisServer,
): Promise<void> {
  const key = await operator.issueKey(account, { scopes: ['debtors:read'], rateLimit })
  const url = gateways[round % gateways.length]?.url ?? ''
  const dispatcher = new Client(url)
  // The first call uses up a limit of 1. The second shows the status that the third would get.
  await call(`${url}/api/v1/me`, { key: key.secret, dispatcher })
  const before = await call(url + path, { key: key.secret, dispatcher })
  await operator.revokeKey(key.id)
  if (emptied !== undefined) await emptied.client.flushall()
  const after = await call(url + path, { key: key.secret, dispatcher })
  await dispatcher.close()
  if (before.status !== status) t.fail(`expected ${status} before, was ${before.status}`)
  if (after.status !== 401) t.fail(`round ${round}: ${after.status} after the revocation`)
  matches(t, after, { status: 401, json: { code: 'revoked_api_key' } })
}
