/** Redis requires TLS, users or passwords. If it rejects the gateway, operators can see why, and clients cannot. */
import dns from 'node:dns'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { containing, matches, rejectsWith } from '../fixtures/matches.ts'
import { NEEDS_IPV6 } from '../fixtures/network/ipv6.ts'
import { startBlackHole } from '../fixtures/servers/black-hole.ts'
import { createCertificate } from '../fixtures/servers/certificate.ts'
import { reservePort, startOnReservedPort } from '../fixtures/servers/ports.ts'
import { connectRateLimiter, startRedis } from '../fixtures/servers/redis.ts'
import { startSentinels } from '../fixtures/servers/redis-sentinels.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

const PASSWORD = 'canary-in-the-mine'
/** The guide that documents the ACL lines. */
const guide = readFileSync(new URL('../../docs/scaling.md', import.meta.url), 'utf8')
const [ACL_LINE = ''] = /^user gateway .+$/m.exec(guide) ?? []
const [SENTINELS_ACL_LINE = ''] = /^user watcher .+$/m.exec(guide) ?? []

async function startGuarded(t: Test, more: readonly string[] = []) {
  const aclFile = join(t.testdir(), 'users.acl')
  const line = ACL_LINE.replace('PASSWORD', PASSWORD)
  writeFileSync(aclFile, `user default off\nuser tests on nopass ~* &* +@all\n${line}\n`)
  return startRedis(t, ['--aclfile', aclFile, ...more])
}

t.test(
  'the documented ACL line lets the gateway count, but not read, use other keys or administer',
  async (t) => {
    const { port } = await startGuarded(t)
    const rateLimiter = connectRateLimiter(t, `redis://gateway:${PASSWORD}@127.0.0.1:${port}`)
    await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis')
    for (let used = 1; used <= 3; used++)
      matches(t, await rateLimiter.consume('key_1', 2), { used })

    const client = new Redis(port, '127.0.0.1', { username: 'gateway', password: PASSWORD })
    t.teardown(() => client.disconnect())
    await rejectsWith(t, client.get('rate-limit:{key_1}'), /NOPERM/)
    await rejectsWith(t, client.set('other', '1'), /NOPERM/)
    await rejectsWith(t, client.flushall(), /NOPERM/)
    await rejectsWith(t, client.config('GET', '*'), /NOPERM/)
  },
)

t.test(
  'the documented ACL line for Sentinel is sufficient to find and follow the master',
  async (t) => {
    const sentinels = await startSentinels(t, [SENTINELS_ACL_LINE.replace('PASSWORD', PASSWORD)])
    const rateLimiter = connectRateLimiter(
      t,
      `${sentinels.url}?sentinel_username=watcher&sentinel_password=${PASSWORD}`,
    )
    await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis')
    await rateLimiter.consume('key', 9)
    const before = await sentinels.master()
    await sentinels.failOver()
    await until(async () => (await sentinels.master()) !== before, 'there is another master')
    const { client } = await sentinels.master()
    await until(async () => {
      await rateLimiter.consume('key', 1_000_000)
      return Number(await client.get('rate-limit:{key}')) > 1
    }, 'the rate limiter counts in Redis again')

    const [, port] = /:(\d+),/.exec(sentinels.url) ?? []
    const login = { username: 'watcher', password: PASSWORD, enableReadyCheck: false }
    const watcher = new Redis(Number(port), '127.0.0.1', login)
    t.teardown(() => watcher.disconnect())
    await rejectsWith(t, watcher.info(), /NOPERM/)
    await rejectsWith(t, watcher.call('sentinel', 'failover', 'receivables'), /NOPERM/)
    t.equal(await watcher.subscribe('+switch-master'), 1)
  },
)

t.test(
  'a rejection by Redis is explained in the log and in /readyz, and in no response',
  async (t) => {
    const { port, client } = await startGuarded(t)
    client.disconnect()
    const backend = await startRawBackend(t)
    const gateway = await startGateway(t, backend.url, {
      REDIS_URL: `redis://gateway:${PASSWORD}x@127.0.0.1:${port}`,
    })
    const readyz = `http://127.0.0.1:${gateway.operationsPort}/readyz`
    const text = await until(async () => {
      const body = await (await fetch(readyz)).text()
      return body.includes('rejects') && body
    }, '/readyz has the reason')
    matches(t, text, containing('it rejects the user or the password of REDIS_URL'))
    await until(() => gateway.log().includes('it rejects the user or'), 'the reason is logged')
    const response = await call(`${gateway.url}/api/v1/debtors`, { key: mintApiKey().secret })
    t.equal(response.status, 200, 'the call is counted in the gateway')
    t.notMatch(JSON.stringify([response, text, gateway.log()]), PASSWORD)
  },
)

t.test('the rate limiter reports why it cannot use Redis', async (t) => {
  const guarded = await startGuarded(t)
  const old = await startRedis(t, ['--rename-command', 'PEXPIRETIME', ''])
  const open = await startRedis(t)
  const reasons: [string, string, RegExp][] = [
    ['a wrong password', `redis://gateway:no@127.0.0.1:${guarded.port}`, /rejects the user or/],
    ['an unknown user', `redis://unknown:no@127.0.0.1:${guarded.port}`, /rejects the user or/],
    ['no password', `redis://127.0.0.1:${guarded.port}`, /requires a password/],
    ['Redis before 7.0', old.url, /older than Redis 7\.0/],
    // Regression: in this case and the next, the gateway counted in database 0.
    [
      'no permission for another database',
      `redis://gateway:${PASSWORD}@127.0.0.1:${guarded.port}/1`,
      /may not run a command/,
    ],
    ['no such database', `redis://127.0.0.1:${open.port}/99`, /no database with the number/],
    ['no server', `redis://127.0.0.1:${await reservePort()}`, /ECONNREFUSED/],
    [
      'no sentinel',
      `redis-sentinel://127.0.0.1:${await reservePort()}/one`,
      /no sentinel responds, or/,
    ],
  ]
  for (const [name, url, reason] of reasons) {
    const rateLimiter = connectRateLimiter(t, url)
    await until(() => reason.test(rateLimiter.outage() ?? ''), `${name}: ${reason}`)
    t.equal(rateLimiter.state(), 'starting', name)
  }
})

t.test(
  'a missing permission causes an outage until it is granted, and is named as the reason',
  async (t) => {
    const { port } = await startGuarded(t)
    const operator = new Redis(port, '127.0.0.1', { username: 'tests', password: 'any' })
    t.teardown(() => operator.disconnect())
    const rateLimiter = connectRateLimiter(t, `redis://gateway:${PASSWORD}@127.0.0.1:${port}`)
    await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis')
    await operator.call('ACL', 'SETUSER', 'gateway', '-incrby')
    matches(t, await rateLimiter.consume('key_1', 600), { used: 1, degraded: true })
    matches(t, rateLimiter.outage(), /may not run a command/)
    await operator.call('ACL', 'SETUSER', 'gateway', '+incrby')
    await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis again')
    matches(t, await rateLimiter.consume('key_1', 600), { used: 2, degraded: false })
    await operator.call('ACL', 'SETUSER', 'gateway', 'resetkeys')
    matches(t, await rateLimiter.consume('key_1', 600), { degraded: true })
    matches(t, rateLimiter.outage(), /may not access rate-limit/)
  },
)

const outerAddress = Object.values(networkInterfaces())
  .flat()
  .find(
    (networkInterface) => networkInterface?.family === 'IPv4' && !networkInterface.internal,
  )?.address
const skip = outerAddress === undefined && 'this machine has no address but loopback'

t.test('if Redis is in protected mode, the reason names it', { skip }, async (t) => {
  const { port } = await startRedis(t, ['--bind', '0.0.0.0', '--protected-mode', 'yes'])
  const rateLimiter = connectRateLimiter(t, `redis://${outerAddress}:${port}`)
  await until(
    () => /protected mode/.test(rateLimiter.outage() ?? ''),
    'the reason names protected mode',
  )
})

t.test(
  'TLS: the certificate of a private authority is trusted if a setting names the authority',
  async (t) => {
    const directory = t.testdir()
    const { key, cert } = await createCertificate(t, 'IP:127.0.0.1')
    const files = { key: join(directory, 'tls.key'), cert: join(directory, 'tls.crt') }
    writeFileSync(files.key, key)
    writeFileSync(files.cert, cert)
    const port = await startOnReservedPort(async (port) => {
      await startRedis(t, [
        ...['--tls-port', String(port), '--tls-auth-clients', 'no'],
        ...['--tls-ca-cert-file', files.cert, '--tls-cert-file', files.cert],
        ...['--tls-key-file', files.key],
      ])
      return port
    })
    const url = `rediss://127.0.0.1:${port}`
    const rateLimiter = connectRateLimiter(t, url, { ca: cert })
    await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis')
    matches(t, await rateLimiter.consume('key_1', 600), { used: 1, degraded: false })

    const untrusting = connectRateLimiter(t, url)
    await until(
      () => /self-signed certificate/.test(untrusting.outage() ?? ''),
      'the reason names the certificate',
    )
    t.equal(untrusting.state(), 'starting')
  },
)

t.test('the rate limiter counts in Redis over a Unix socket', async (t) => {
  // A socket needs a short path (107 bytes); the path of `t.testdir()` may be longer.
  const path = join(tmpdir(), `redis-${process.pid}.sock`)
  t.teardown(() => rmSync(path, { force: true }))
  await startRedis(t, ['--unixsocket', path])
  const rateLimiter = connectRateLimiter(t, `unix://${path}?db=3`)
  await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis')
  matches(t, await rateLimiter.consume('key_1', 600), { used: 1, degraded: false })
})

// Regression: the connection timed out before the second address was tried, so the gateways never shared the limit.
t.test(
  'if an address of the host does not respond, Redis is reached at its other address',
  NEEDS_IPV6,
  async (t) => {
    const { port } = await startRedis(t)
    await startBlackHole(t, '::1', port)
    const { lookup } = dns
    t.teardown(() => Object.assign(dns, { lookup }))
    const addresses = [
      { address: '::1', family: 6 },
      { address: '127.0.0.1', family: 4 },
    ]
    Object.assign(dns, {
      lookup: (_: string, __: object, done: (error: null, found: object) => void) =>
        done(null, addresses),
    })
    const rateLimiter = connectRateLimiter(t, `redis://redis.test:${port}`)
    await until(() => rateLimiter.state() === 'exact', 'the rate limiter counts in Redis')
  },
)
