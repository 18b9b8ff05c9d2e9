/** Clients that exceed the limits on connections and file descriptors, and bodies that arrive too slowly. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { startCrowd } from '../fixtures/servers/crowd.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { type StartedGateway, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, {
  GATEWAY_CONNECTIONS: '60',
  GATEWAY_CONNECTIONS_PER_CLIENT: '40',
  GATEWAY_REQUEST_TIMEOUT_MS: '600000',
  LOG_LEVEL: 'warn',
})
const key = backend.issue(undefined, 1_000_000)

async function metricOf(name: string): Promise<number> {
  const { text } = await call(`http://127.0.0.1:${gateway.operationsPort}/metrics`)
  const line = new RegExp(`^receivables_gateway_${name}(?:\\{.*\\})? (\\S+)`, 'gm')
  return [...text.matchAll(line)].reduce((sum, [, value]) => sum + Number(value), 0)
}

/**
 * Calls with a key in use, half of them on connections of their own. Returns a function that resolves
 * with statuses.
 */
async function callWell(t: Test, to: StartedGateway, localAddress: string) {
  const url = `${to.url}/api/v1/debtors`
  const kept = new Agent({ connect: { localAddress } })
  t.teardown(() => kept.destroy())
  await call(url, { key, dispatcher: kept })
  return async () => {
    const statuses = new Set<number>()
    for (let n = 0; n < 40; n++) {
      const dispatcher = n % 2 === 0 ? kept : new Agent({ connect: { localAddress } })
      statuses.add((await call(url, { key, dispatcher })).status)
      if (dispatcher !== kept) await dispatcher.destroy()
    }
    return [...statuses]
  }
}

t.test('beyond the limit, the client with most connections loses one', async (t) => {
  const callApart = await callWell(t, gateway, '127.0.0.1')
  const callBeside = await callWell(t, gateway, '127.0.2.1')
  const crowd = startCrowd(t, { port: gateway.port, count: 400, addresses: 30 })
  const evictions = () => metricOf('evictions_total')
  await until(async () => (await evictions()) >= 340, 'all were accepted')
  t.strictSame([await callApart(), await callBeside()], [[200], [200]])
  t.ok((await metricOf('connections')) <= 60)
  const { json } = await call(`http://127.0.0.1:${gateway.operationsPort}/readyz`)
  t.strictSame(json, {
    ready: true,
    reasons: [],
    degraded: ['the limit of the connections of all clients is reached'],
  })
  t.ok(gateway.log().split('\n').length < 40, 'a line a second, not a line a connection')
  await crowd.close()
})

t.test('a client that opens too many connections loses its own ones', async (t) => {
  const callApart = await callWell(t, gateway, '127.0.0.1')
  const callBeside = await callWell(t, gateway, '127.0.2.1')
  const before = await metricOf('evictions_total')
  const crowd = startCrowd(t, { port: gateway.port, count: 100, addresses: 1 })
  await until(async () => (await metricOf('evictions_total')) > before + 50, 'all were accepted')
  t.strictSame([await callApart(), await callBeside()], [[200], [200]])
  // The gateway may not have read yet that the last of the calls' own connections are closed.
  await until(async () => (await metricOf('connections')) <= 42, 'the crowd keeps its 40')
  await crowd.close()
})

t.test('a body that arrives too slowly gets 408 long before its deadline', async (t) => {
  const socket = connect(gateway.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const head = `POST /api/v1/debtors HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`
  socket.write(`${head}Content-Length: 200000\r\n\r\n${'x'.repeat(1_000)}`)
  const drip = setInterval(() => socket.write('x'), 50)
  t.teardown(() => clearInterval(drip))
  const [response] = await once(socket, 'data')
  t.equal(String(response).split('\r\n', 1)[0], 'HTTP/1.1 408 Request Timeout')
})

t.test('without free file descriptors for new connections, the open ones are served', async (t) => {
  const own = await startGateway(t, backend.url, { LOG_LEVEL: 'warn' })
  const url = `${own.url}/api/v1/debtors`
  const kept = new Agent({ connections: 1 })
  t.teardown(() => kept.destroy())
  const statusOf = async () => (await call(url, { key, dispatcher: kept })).status
  t.equal(await statusOf(), 200)
  const open = readdirSync(`/proc/${own.pid}/fd`).length
  execFileSync('prlimit', ['--pid', String(own.pid), `--nofile=${open + 20}:`])
  const crowd = startCrowd(t, { port: own.port, count: 200, addresses: 1 })
  await crowd.opened
  for (let n = 0; n < 20; n++) t.equal(await statusOf(), 200)
  await crowd.close()
  execFileSync('prlimit', ['--pid', String(own.pid), '--nofile=10000:'])
  const dispatcher = new Agent()
  t.teardown(() => dispatcher.destroy())
  t.equal((await call(url, { key, dispatcher })).status, 200)
})

t.test('an old connection is closed after a response with Connection: close', async (t) => {
  const own = await startGateway(t, backend.url, {
    GATEWAY_CONNECTION_AGE_S: '1',
    LOG_LEVEL: 'warn',
  })
  const socket = connect(own.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const closed = once(socket, 'end')
  let text = ''
  socket.on('data', (bytes: Buffer) => {
    text += bytes
  })
  const request = `GET /api/v1/debtors HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`
  let sent = 0
  await until(async () => {
    socket.write(request)
    sent++
    await until(() => text.split('HTTP/1.1 200 OK').length > sent, 'the call is served')
    return text.includes('connection: close')
  }, 'the connection is old')
  await closed
  t.ok(sent > 1, 'the first call did not end it')
  t.equal(text.split('connection: close').length, 2)
})
