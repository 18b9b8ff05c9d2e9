import t from 'tap'
import { CLIENT_ADDRESS_HEADER } from '../../shared/contract/principal.ts'
import { NEEDS_IPV6 } from '../fixtures/network/ipv6.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { exchangeBytes, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const backend = await startCapturingBackend(t)
const forged = { 'x-forwarded-for': '203.0.113.9, 198.51.100.7' }

async function addressSeen(url: string, headers: Record<string, string>) {
  await call(`${url}/settings`, { headers })
  return backend.requests.at(-1)?.headers[CLIENT_ADDRESS_HEADER]
}

t.test('a client cannot choose its own address', async (t) => {
  const { url } = await startGateway(t, backend.url)
  t.equal(await addressSeen(url, forged), '127.0.0.1')
  t.equal(await addressSeen(url, { [CLIENT_ADDRESS_HEADER]: '203.0.113.9' }), '127.0.0.1')
})

t.test('behind one trusted proxy, the address that it reports is used', async (t) => {
  const { url } = await startGateway(t, backend.url, { TRUST_PROXY: '1' })
  t.equal(await addressSeen(url, forged), '198.51.100.7')
  t.equal(await addressSeen(url, {}), '127.0.0.1')
  t.equal(await addressSeen(url, { 'x-forwarded-for': 'nonsense' }), '127.0.0.1')
})

// Regression: such a client got the address of the proxy.
t.test('a trusted proxy may report the port of the client too', async (t) => {
  const { url } = await startGateway(t, backend.url, { TRUST_PROXY: '1' })
  for (const [entry, address] of [
    ['198.51.100.7:4711', '198.51.100.7'],
    ['[2001:db8::7]:4711', '2001:db8::7'],
    ['[2001:db8::7]', '2001:db8::7'],
    ['2001:db8::7', '2001:db8::7'],
    ['::ffff:198.51.100.7', '198.51.100.7'],
    ['[::FFFF:c633:6407]:4711', '198.51.100.7'],
    ['fe80::7%eth0', 'fe80::7%eth0'],
    ['198.51.100.7:', '127.0.0.1'],
    ['[198.51.100.7', '127.0.0.1'],
  ] as const) {
    const seen = await addressSeen(url, { 'x-forwarded-for': `203.0.113.9, ${entry}` })
    t.equal(seen, address, entry)
  }
})

// Regression: a client that named `X-Forwarded-For` in `Connection` got the address of the proxy.
t.test('a client cannot remove the address that a trusted proxy reports', async (t) => {
  const { port } = await startGateway(t, backend.url, { TRUST_PROXY: '1' })
  const lines = ['Host: a', 'X-Forwarded-For: 198.51.100.7', 'Connection: close, X-Forwarded-For']
  await exchangeBytes(port, `GET /settings HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
  t.equal(backend.requests.at(-1)?.headers[CLIENT_ADDRESS_HEADER], '198.51.100.7')
})

// Regression: the access log, the audit log and the records of logins contained `::ffff:127.0.0.1`.
t.test(
  'an IPv4 client of a gateway that listens on `::` has its IPv4 address',
  NEEDS_IPV6,
  async (t) => {
    const gateway = await startGateway(t, backend.url, { GATEWAY_HOST: '::' })
    t.equal(await addressSeen(gateway.url, {}), '127.0.0.1')
    await until(() => gateway.log().includes('"msg":"call"'), 'the call is logged')
    t.ok(gateway.log().includes('"client":"127.0.0.1"'))
  },
)
