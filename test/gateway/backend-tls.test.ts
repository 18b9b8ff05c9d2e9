/** A proxy in front of each backend ends TLS. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream'
import { createServer, type Server } from 'node:tls'
import t, { type Test } from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { NEEDS_IPV6 } from '../fixtures/network/ipv6.ts'
import { type Certificate, createCertificate } from '../fixtures/servers/certificate.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

const CALLS = 60
const FORMS = 10

async function startTlsProxy(
  t: Test,
  certificate: Certificate,
  host = '127.0.0.1',
): Promise<Server> {
  const backend = await startRawBackend(t)
  const server = createServer(certificate, (socket) => {
    const upstream = connect(Number(new URL(backend.url).port), '127.0.0.1')
    pipeline(socket, upstream, socket, () => {})
  })
  server.on('tlsClientError', () => {})
  server.listen(0, host)
  await once(server, 'listening')
  t.teardown(() => server.close())
  return server
}

// Regression: a third of these calls got 503, and some forms 502, until a readiness probe needed a new connection.
t.test(
  'while one of two backends has an invalid certificate, no call and no form fails',
  async (t) => {
    const untrusted = await createCertificate(t, 'IP:127.0.0.1')
    const trusted = await createCertificate(t, 'IP:127.0.0.1')
    const NODE_EXTRA_CA_CERTS = join(t.testdirName, 'trusted.pem')
    writeFileSync(NODE_EXTRA_CA_CERTS, trusted.cert)
    const proxies = [await startTlsProxy(t, trusted), await startTlsProxy(t, trusted)]
    const urls = proxies.map(
      (proxy) => `https://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    )
    const env = { LOG_LEVEL: 'fatal', NODE_EXTRA_CA_CERTS }
    const gateway = await startGateway(t, urls.join(), env)
    const readyz = `http://127.0.0.1:${gateway.operationsPort}/readyz`
    const isReady = async () => {
      const { reasons, degraded } = (await call(readyz)).json
      return [...reasons, ...degraded].length === 0
    }
    await until(isReady, 'both backends are ready')
    // Connections that are already open stay open.
    proxies[0]?.setSecureContext(untrusted)
    const key = mintApiKey().secret
    const calls = Array.from({ length: CALLS }, () =>
      call(`${gateway.url}/api/v1/debtors`, { key }),
    )
    const forms = Array.from({ length: FORMS }, () =>
      call(`${gateway.url}/settings/login`, { method: 'POST', body: '' }),
    )
    const statusesOf = async (responses: ReturnType<typeof call>[]) => [
      ...new Set((await Promise.all(responses)).map(({ status }) => status)),
    ]
    t.strictSame(await statusesOf(calls), [200])
    t.strictSame(await statusesOf(forms), [200])
  },
)

// Regression: `[::1]` was resolved as a name, so every call and every page got 503.
t.test('BACKEND_URLS may contain IPv6 addresses, with and without TLS', NEEDS_IPV6, async (t) => {
  const certificate = await createCertificate(t, 'IP:::1')
  const NODE_EXTRA_CA_CERTS = join(t.testdirName, 'trusted.pem')
  writeFileSync(NODE_EXTRA_CA_CERTS, certificate.cert)
  const proxy = await startTlsProxy(t, certificate, '::1')
  const backend = await startRawBackend(t, undefined, '::1')
  for (const backendUrl of [
    `https://[::1]:${(proxy.address() as AddressInfo).port}`,
    backend.url,
  ]) {
    const { url } = await startGateway(t, backendUrl, { NODE_EXTRA_CA_CERTS })
    const key = mintApiKey().secret
    t.equal((await call(`${url}/api/v1/debtors`, { key })).status, 200, backendUrl)
    t.equal((await call(`${url}/settings`)).status, 200, backendUrl)
  }
})
