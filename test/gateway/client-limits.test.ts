/**
 * Clients exceed limits: on connections, on file descriptors, on the age of a connection, or on the time for a body.
 */
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
 * Returns a function that makes 40 calls with a cached key, half of them on new connections, and resolves with
 * their statuses.
 */
async function prepareCalls(t: Test, to: StartedGateway, localAddress: string) {
  const url = `${to.url}/api/v1/debtors`
  const keepAlive = new Agent({ connect: { localAddress } })
  t.teardown(() => keepAlive.destroy())
  await call(url, { key, dispatcher: keepAlive })
  return async () => {
    const statuses = new Set<number>()
    for (let n = 0; n < 40; n++) {
      const dispatcher = n % 2 === 0 ? keepAlive : new Agent({ connect: { localAddress } })
      statuses.add((await call(url, { key, dispatcher })).status)
      if (dispatcher !== keepAlive) await dispatcher.destroy()
    }
    return [...statuses]
  }
}

t.test(
  'beyond the limit for all clients, the clients with the most connections lose some of them',
  async (t) => {
    const callFromOneAddress = await prepareCalls(t, gateway, '127.0.0.1')
    const callFromAnother = await prepareCalls(t, gateway, '127.0.2.1')
    const crowd = startCrowd(t, { port: gateway.port, count: 400, addresses: 30 })
    const evictions = () => metricOf('evictions_total')
    await until(async () => (await evictions()) >= 340, 'all connections were accepted')
    t.strictSame([await callFromOneAddress(), await callFromAnother()], [[200], [200]])
    const connections = await metricOf('connections')
    t.ok(connections > 0 && connections <= 60, `${connections} connections are open`)
    const { json } = await call(`http://127.0.0.1:${gateway.operationsPort}/readyz`)
    t.strictSame(json, {
      ready: true,
      reasons: [],
      degraded: ['the limit on connections of all clients is reached'],
    })
    t.ok(gateway.log().split('\n').length < 40, 'one log line per second, not one per connection')
    await crowd.close()
  },
)

t.test('a client that opens too many connections loses its own connections', async (t) => {
  const callFromOneAddress = await prepareCalls(t, gateway, '127.0.0.1')
  const callFromAnother = await prepareCalls(t, gateway, '127.0.2.1')
  const before = await metricOf('evictions_total')
  const crowd = startCrowd(t, { port: gateway.port, count: 100, addresses: 1 })
  await until(
    async () => (await metricOf('evictions_total')) > before + 50,
    'all connections were accepted',
  )
  t.strictSame([await callFromOneAddress(), await callFromAnother()], [[200], [200]])
  // The gateway may not have noticed yet that the last connections of the calls are closed.
  await until(async () => (await metricOf('connections')) <= 42, 'the client has 40 connections')
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

t.test('without free file descriptors, the open connections are served', async (t) => {
  const separate = await startGateway(t, backend.url, { LOG_LEVEL: 'warn' })
  const url = `${separate.url}/api/v1/debtors`
  const keepAlive = new Agent({ connections: 1 })
  t.teardown(() => keepAlive.destroy())
  const statusOf = async () => (await call(url, { key, dispatcher: keepAlive })).status
  t.equal(await statusOf(), 200)
  const open = readdirSync(`/proc/${separate.pid}/fd`).length
  execFileSync('prlimit', ['--pid', String(separate.pid), `--nofile=${open + 20}:`])
  const crowd = startCrowd(t, { port: separate.port, count: 200, addresses: 1 })
  let isOpen = false
  const opened = crowd.opened.finally(() => {
    isOpen = true
  })
  // If the connection to the backend were idle for long, it would be closed, and no other could be opened.
  while (!isOpen) t.equal(await statusOf(), 200)
  await opened
  for (let n = 0; n < 20; n++) t.equal(await statusOf(), 200)
  await crowd.close()
  execFileSync('prlimit', ['--pid', String(separate.pid), '--nofile=10000:'])
  const dispatcher = new Agent()
  t.teardown(() => dispatcher.destroy())
  t.equal((await call(url, { key, dispatcher })).status, 200)
})

t.test('an old connection is closed after a response with Connection: close', async (t) => {
  const separate = await startGateway(t, backend.url, {
    GATEWAY_CONNECTION_AGE_S: '1',
    LOG_LEVEL: 'warn',
  })
  const socket = connect(separate.port, '127.0.0.1')
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
  t.ok(sent > 1, 'the first call did not close the connection')
  t.equal(text.split('connection: close').length, 2)
})
