/**
 * Clients use as many resources of the gateway as they can: connections, heads, handshakes and responses. Meanwhile, a
 * well-behaved client is served on open and on new connections, and the gateway's memory stays below `MEMORY_MAX_MB`.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { createCertificate } from '../fixtures/servers/certificate.ts'
import { startCrowd } from '../fixtures/servers/crowd.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { type StartedGateway, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const HEADS = Number(process.env['HEADS'] ?? 10_000)
const HANDSHAKES = Number(process.env['HANDSHAKES'] ?? 5_000)
const READERS = Number(process.env['READERS'] ?? 60)
const GOOD_CALLS = 100
const MEMORY_MAX_MB = 300
const LIST = JSON.stringify({ object: 'list', data: 'x'.repeat(200_000) })

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'warn' })
const key = backend.issue(undefined, 1_000_000)

const memoryOf = ({ pid }: StartedGateway) =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024)

async function metricOf({ operationsPort }: StartedGateway, name: string): Promise<number> {
  const { text } = await call(`http://127.0.0.1:${operationsPort}/metrics`)
  const line = new RegExp(`^${name}(?:\\{.*\\})? (\\S+)`, 'gm')
  return [...text.matchAll(line)].reduce((sum, [, value]) => sum + Number(value), 0)
}

/**
 * Returns a function that makes the calls of the well-behaved client, half of them on new connections. The function
 * resolves with the statuses of the calls and the 99th percentile of their durations in ms.
 */
async function prepareCalls(t: Test, to: StartedGateway, localAddress: string, ca?: string) {
  const scheme = ca === undefined ? 'http' : 'https'
  const url = `${scheme}://localhost:${to.port}/api/v1/debtors`
  const options = { connect: { localAddress, family: 4, ...(ca === undefined ? {} : { ca }) } }
  const kept = new Agent(options)
  t.teardown(() => kept.destroy())
  await call(url, { key, dispatcher: kept })

  return async () => {
    const times: number[] = []
    const statuses = new Set<number>()
    for (let n = 0; n < GOOD_CALLS; n++) {
      const dispatcher = n % 2 === 0 ? kept : new Agent(options)
      const from = performance.now()
      statuses.add((await call(url, { key, dispatcher })).status)
      times.push(performance.now() - from)
      if (dispatcher !== kept) await dispatcher.destroy()
    }
    times.sort((a, b) => a - b)
    return {
      statuses: [...statuses],
      p99: (times[Math.floor(times.length * 0.99)] ?? 0).toFixed(1),
    }
  }
}

for (const [addresses, localAddress] of [
  [1, '127.0.2.1'],
  [1, '127.0.0.1'],
  [30, '127.0.0.1'],
] as const) {
  const other = addresses === 1 ? 'another address' : `${addresses} other addresses`
  const from = localAddress === '127.0.2.1' ? 'the same address' : other

  t.test(`calls with a key in use succeed despite unfinished heads from ${from}`, async (t) => {
    const callAll = await prepareCalls(t, gateway, localAddress)
    const alone = await callAll()
    const head = `GET /api/v1/debtors HTTP/1.1\r\nHost: a\r\nX-A: ${'x'.repeat(47_000)}`
    const crowd = startCrowd(t, { port: gateway.port, count: HEADS, addresses, bytes: head })
    const during = await callAll()
    await crowd.opened
    const afterwards = await callAll()
    const memory = memoryOf(gateway)
    t.comment(
      `p99 ${alone.p99} ms alone, ${during.p99} ms while the heads arrive, ${afterwards.p99} ms afterwards; ${memory} MB`,
    )
    t.strictSame([during.statuses, afterwards.statuses], [[200], [200]])
    t.ok(memory < MEMORY_MAX_MB)
    await crowd.close()
  })
}

t.test('calls with a key in use succeed despite clients that do not read responses', async (t) => {
  // The kernel buffers a few megabytes for each connection. The memory limits are low, so that few clients reach them.
  const own = await startGateway(t, backend.url, {
    GATEWAY_CLIENT_MEMORY_MIB: '4',
    GATEWAY_MEMORY_PER_CLIENT_MIB: '4',
    LOG_LEVEL: 'warn',
  })
  const greedy = backend.issue(undefined, 1_000_000)
  await call(`${own.url}/api/v1/debtors`, { key: greedy })
  const callAll = await prepareCalls(t, own, '127.0.0.1')
  const alone = await callAll()
  backend.respondWith((request, res) => {
    res.end(request.headers['x-receivables-principal']?.includes(greedy.slice(4, 12)) ? LIST : '{}')
  })
  const request = `GET /api/v1/debtors HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${greedy}\r\n\r\n`
  const bytes = request.repeat(100)
  const crowd = startCrowd(t, { port: own.port, count: READERS, addresses: 30, bytes })
  await until(
    async () => (await metricOf(own, 'receivables_gateway_evictions_total')) > 0,
    'the clients have used up their memory',
  )
  const { statuses, p99 } = await callAll()
  const bufferedBytes = await metricOf(own, 'receivables_gateway_client_memory_bytes')
  const memory = memoryOf(own)
  t.comment(`p99 ${alone.p99} ms alone, ${p99} among ${READERS} readers; ${memory} MB`)
  t.strictSame(statuses, [200])
  t.ok(bufferedBytes <= 4 * 1024 * 1024)
  // The gateway once used 298 to 359 MB, because sent responses stayed in memory until a late garbage collection.
  t.ok(memory < MEMORY_MAX_MB)
  await crowd.close()
})

t.test('calls with a key in use succeed despite floods of pipelined calls', async (t) => {
  backend.respondWith((_, res) => res.end('{}'))
  const callAll = await prepareCalls(t, gateway, '127.0.0.1')
  const request = (secret: string) =>
    `GET /api/v1/debtors HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`
  const bytes = Array.from({ length: 400 }, () => request(mintApiKey().secret)).join('')
  const crowd = startCrowd(t, { port: gateway.port, count: 50, addresses: 30, bytes })
  const { statuses, p99 } = await callAll()
  t.comment(`p99 ${p99} ms among pipelined calls; ${memoryOf(gateway)} MB`)
  t.strictSame(statuses, [200])
  await crowd.close()
})

t.test('calls with a key in use succeed despite handshakes that do not end', async (t) => {
  const { cert, key: privateKey } = await createCertificate(t, 'DNS:localhost')
  const directory = t.testdir({ 'tls.crt': cert, 'tls.key': privateKey })
  const [TLS_CERT, TLS_KEY] = [join(directory, 'tls.crt'), join(directory, 'tls.key')]
  const own = await startGateway(t, backend.url, { TLS_CERT, TLS_KEY, LOG_LEVEL: 'fatal' })
  for (const addresses of [1, 30]) {
    const callAll = await prepareCalls(t, own, addresses === 1 ? '127.0.2.1' : '127.0.0.1', cert)
    const alone = await callAll()
    const bytes = '\x16\x03\x01'
    const crowd = startCrowd(t, { port: own.port, count: HANDSHAKES, addresses, bytes })
    const during = await callAll()
    await crowd.opened
    const open = await metricOf(own, 'receivables_gateway_handshakes')
    const afterwards = await callAll()
    const memory = memoryOf(own)
    t.comment(
      `p99 ${alone.p99} ms alone, ${during.p99} ms while handshakes begin, ${afterwards.p99} ms while ${open} are open; ${memory} MB`,
    )
    t.strictSame([during.statuses, afterwards.statuses], [[200], [200]])
    t.ok(open <= 500, 'handshakes may use a tenth of all connections')
    t.ok(memory < MEMORY_MAX_MB)
    await crowd.close()
  }
})
