import type { LookupAddress } from 'node:dns'
import t, { type Test } from 'tap'
import { Abort } from '../../gateway/call/abort.ts'
import { createCallRecord } from '../../gateway/call/call-record.ts'
import { parseBackendUrl, watchBackendAddresses } from '../../gateway/upstream/addresses.ts'
import { BackendSet } from '../../gateway/upstream/backend-set.ts'
import { createForwarder } from '../../gateway/upstream/forward.ts'
import { createLogger } from '../../shared/process/log.ts'
import { rejectsWith, throwsWith } from '../fixtures/matches.ts'
import { NEEDS_IPV6 } from '../fixtures/network/ipv6.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

const log = createLogger('test', 'silent')
const REQUEST = {
  accountId: 'acct_00000000000000000000000000',
  method: 'POST',
  target: '/api/v1/debtors',
  headers: [],
  body: Buffer.from('{}'),
  idempotent: false,
}

/**
 * Starts a forwarder to the backends of one host name. `zone` has the addresses of the name; a test may change them.
 */
async function startForwarder(t: Test, zone: { addresses: readonly string[] | Error }) {
  const port = await reservePort()
  const requested: string[] = []
  const addresses = watchBackendAddresses({
    urls: [`http://backends.test:${port}`],
    async resolve(name): Promise<LookupAddress[]> {
      requested.push(name)
      if (zone.addresses instanceof Error) throw zone.addresses
      return zone.addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    },
    log,
  })
  const options = { gatewaySecrets: [GATEWAY_SECRET], connections: 4, timeoutMs: 2_000, log }
  const backends = new BackendSet({ ...options, addresses })
  t.teardown(async () => {
    addresses.close()
    backends.close()
  })
  const limits = { timeoutMs: 2_000, waitMs: 250, streamsMax: 2 }
  const { admit, forward } = createForwarder({ backends, ...limits, log })
  return {
    port,
    admit,
    requested,
    backends,
    send: () => forward(REQUEST, new Abort(), createCallRecord('127.0.0.1', false)),
    /** Resolves the name repeatedly, until exactly these addresses are ready. */
    async untilReady(...ready: string[]) {
      const readyBackends = () => backends.statuses().filter((status) => status.ready)
      await until(() => {
        addresses.refresh()
        return (
          readyBackends()
            .map(({ url }) => url)
            .join() === ready.map((ip) => `http://${ip}:${port}`).join()
        )
      }, `${ready} are ready`)
    },
  }
}

t.test('addresses are added to a name and removed under load without a failed call', async (t) => {
  const zone = { addresses: ['127.0.0.2'] as readonly string[] | Error }
  const { port, send, untilReady, backends } = await startForwarder(t, zone)
  const [oldBackend, newBackend] = [
    await startRawBackend(t, port, '127.0.0.2'),
    await startRawBackend(t, port, '127.0.0.3'),
  ]
  await untilReady('127.0.0.2')
  let isDone = false
  let calls = 0
  const load = Array.from({ length: 8 }, async () => {
    while (!isDone) {
      const { status } = await send()
      if (status === 200) calls++
      else throw new Error(`status ${status}`)
    }
  })
  zone.addresses = ['127.0.0.2', '127.0.0.3']
  await untilReady('127.0.0.2', '127.0.0.3')
  await until(() => newBackend.calls.length > 50, 'the new backend gets its share')

  zone.addresses = ['127.0.0.3']
  await untilReady('127.0.0.3')
  t.equal(backends.size, 1)
  await until(() => oldBackend.connections() === 0, 'the connections to the old backend are closed')
  const callsToOldBackend = oldBackend.calls.length

  zone.addresses = new Error('the names cannot be resolved')
  const callsBefore = calls
  await until(() => calls > callsBefore + 500, 'the last addresses stay in use')
  isDone = true
  await Promise.all(load)
  t.equal(oldBackend.calls.length, callsToOldBackend, 'the old backend gets no more calls')
  t.ok(calls > 500, `${calls} calls, each with its response`)
})

// Regression: the pool of the removed address repeatedly closed its connections and opened new ones while
// calls waited.
t.test('calls that wait for a backend get their responses although it is removed', async (t) => {
  const zone = { addresses: ['127.0.0.2', '127.0.0.3'] as readonly string[] | Error }
  const { port, send, untilReady } = await startForwarder(t, zone)
  const [removed, kept] = [
    await startRawBackend(t, port, '127.0.0.2'),
    await startRawBackend(t, port, '127.0.0.3'),
  ]
  await untilReady('127.0.0.2', '127.0.0.3')
  for (const backend of [removed, kept]) {
    backend.setBehavior((socket) => void setTimeout(() => socket.write(RAW_OK), 50))
  }
  const calls = Array.from({ length: 60 }, send)
  await until(() => removed.calls.length >= 4, 'every connection is busy')
  zone.addresses = ['127.0.0.3']
  await untilReady('127.0.0.3')
  const responses = await Promise.all(calls)
  t.strictSame([...new Set(responses.map(({ status }) => status))], [200])
  t.equal(removed.calls.length + kept.calls.length, 60, 'each call was sent once')
  await until(
    () => removed.connections() === 0,
    'the connections to the removed backend are closed',
  )
})

// Regression: resolutions of the slow name piled up, and the result of an earlier one could replace a later one.
t.test('a name is not resolved again while its resolution is in progress', async (t) => {
  const requested: string[] = []
  const slow = Promise.withResolvers<LookupAddress[]>()
  const addresses = watchBackendAddresses({
    urls: ['http://slow.test:8081', 'http://fast.test:8081'],
    async resolve(name) {
      requested.push(name)
      return name === 'slow.test' ? slow.promise : [{ address: '127.0.0.2', family: 4 }]
    },
    log,
  })
  t.teardown(() => addresses.close())
  const requestsOf = (name: string) => requested.filter((other) => other === name).length
  const resolveAgain = (name: string) => {
    const before = requestsOf(name)
    return until(() => {
      addresses.refresh()
      return requestsOf(name) > before
    }, `${name} is resolved again`)
  }
  await resolveAgain('fast.test')
  t.equal(requestsOf('slow.test'), 1)
  slow.resolve([{ address: '127.0.0.3', family: 4 }])
  await resolveAgain('slow.test')
  t.equal(addresses.current().length, 2)
})

t.test('while no address is known, calls get 503 and are not admitted', async (t) => {
  const zone = { addresses: new Error('no such name') as readonly string[] | Error }
  const { port, admit, send, untilReady } = await startForwarder(t, zone)
  const unavailable = { code: 'service_unavailable', status: 503, headers: { 'retry-after': '1' } }
  throwsWith(
    t,
    () => admit({ accountId: 'acct_1', keyId: 'key_1' }, new Abort()),
    unavailable,
    'the call is not admitted, and so not counted',
  )
  await rejectsWith(t, send(), unavailable)
  zone.addresses = ['127.0.0.2']
  await until(
    () => send().catch((error) => error.cause?.code === 'ECONNREFUSED'),
    'the address is known, but refuses connections',
  )
  await startRawBackend(t, port, '127.0.0.2')
  await untilReady('127.0.0.2')
  t.equal((await send()).status, 200)
})

t.test(
  'the IPv4 addresses of a name are used, and the IPv6 addresses only if there are no others',
  async (t) => {
    const zone = { addresses: ['::1', '127.0.0.2', '127.0.0.2'] as readonly string[] | Error }
    const { port, backends } = await startForwarder(t, zone)
    await until(() => backends.size === 1, 'the address is known')
    t.equal(backends.statuses()[0]?.url, `http://127.0.0.2:${port}`)
    const onlyIpv6 = await startForwarder(t, { addresses: ['::1'] })
    await until(() => onlyIpv6.backends.size === 1, 'the address is known')
    t.equal(onlyIpv6.backends.statuses()[0]?.url, `http://[::1]:${onlyIpv6.port}`)
  },
)

// Regression: all calls got 503 for as long as the name had the IPv4 address.
t.test(
  'if no IPv4 address of a name accepts a connection, its IPv6 addresses are used until one does',
  NEEDS_IPV6,
  async (t) => {
    const zone = { addresses: ['127.0.0.2', '::1'] }
    const { port, send, untilReady } = await startForwarder(t, zone)
    await startRawBackend(t, port, '::1')
    await untilReady('[::1]')
    t.equal((await send()).status, 200)
    await startRawBackend(t, port, '127.0.0.2')
    await untilReady('127.0.0.2')
  },
)

t.test('backend URLs of five forms are normalized, and other URLs are rejected', async (t) => {
  const forms: [string, string][] = [
    ['http://10.0.0.7:8081/', 'http://10.0.0.7:8081'],
    ['https://backend.example', 'https://backend.example'],
    ['http://[::1]:8081', 'http://[::1]:8081'],
    ['unix:/run/backend.sock', 'unix:/run/backend.sock'],
    ['http+unix:///run/backend.sock', 'unix:/run/backend.sock'],
  ]
  for (const [text, url] of forms) t.equal(parseBackendUrl(text), url)
  for (const text of ['backend:8081', 'ftp://x', 'http://x/base', 'http://u:p@x', 'unix:run', '']) {
    throwsWith(t, () => parseBackendUrl(text), { message: /^must be http/ }, text)
  }
  // Regression: the gateway started, and was never ready.
  throwsWith(t, () => parseBackendUrl('http://backend:0'), { message: /must not have the port 0/ })
})
