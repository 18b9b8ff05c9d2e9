import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { containing, matches } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { exchangeBytes, type StartedGateway, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const backend = await startCapturingBackend(t)
const key = backend.issue()

const linesOf = (gateway: StartedGateway): Record<string, unknown>[] => {
  const complete = gateway.log().split('\n').slice(0, -1)
  return complete.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'call')
}

t.test('a malformed request has a log line that contains none of its bytes', async (t) => {
  const gateway = await startGateway(t, backend.url)
  await exchangeBytes(gateway.port, 'S3CR3T\r\n\r\n')
  await exchangeBytes(gateway.port, 'GET /S3CR3T HTTP/1.1\r\nHost: a\r\nHost: S3CR3T\r\n\r\n')
  await exchangeBytes(gateway.port, 'BREW /S3CR3T HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => linesOf(gateway).length === 3, 'each request has its log line')
  matches(t, linesOf(gateway), [
    { status: 400, code: 'bad_request', client: '127.0.0.1', requestId: /^req_/ },
    { status: 400, code: 'bad_request', client: '127.0.0.1', ms: Number },
    { status: 405, code: 'method_not_allowed', client: '127.0.0.1' },
  ])
  t.notMatch(gateway.log(), 'S3CR3T')
})

// Regression: such a key was logged.
t.test('an API key that a client sends as its request id is not logged', async (t) => {
  const gateway = await startGateway(t, backend.url)
  for (const requestId of [key, `x.${key}`]) {
    const headers = { 'x-request-id': requestId }
    const responses = [
      await call(`${gateway.url}/api/v1/debtors`, { key, headers }),
      await call(`${gateway.url}/api/v1/debtors`, { headers }),
    ]
    for (const response of responses) matches(t, response.headers, { 'x-request-id': /^req_/ })
    matches(t, backend.requests.at(-1)?.headers, { 'x-request-id': /^req_/ })
  }
  await until(() => linesOf(gateway).length === 4, 'each call has its log line')
  t.notOk(gateway.log().includes(key))
})

t.test('the call of a client that disconnects has one log line, with status 499', async (t) => {
  const gateway = await startGateway(t, backend.url)
  let hasArrived = false
  backend.respondWith(() => {
    hasArrived = true
  })
  const socket = connect(gateway.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(`GET /api/v1/debtors HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`)
  await until(() => hasArrived, 'the backend has the call')
  socket.destroy()
  await until(() => linesOf(gateway).length === 1, 'the call has its log line')
  matches(t, linesOf(gateway), [{ status: 499, route: '/api/v1/debtors', keyId: /^key_/ }])
})

t.test(
  'a call whose client resets the connection during a large response has one log line',
  async (t) => {
    const gateway = await startGateway(t, backend.url)
    const bytes = 8 * 1024 * 1024
    for (const { isWhole } of [{ isWhole: true }, { isWhole: false }]) {
      const linesBefore = linesOf(gateway).length
      backend.respondWith((_, res) => {
        res.writeHead(200, { 'content-length': bytes })
        res.write(Buffer.alloc(isWhole ? bytes : bytes / 2, 'x'))
      })
      const socket = connect(gateway.port, '127.0.0.1')
      await once(socket, 'connect')
      socket.write(
        `GET /api/v1/debtors HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`,
      )
      await once(socket, 'data')
      socket.resetAndDestroy()
      await until(() => linesOf(gateway).length > linesBefore, 'the call has its line')
      await call(gateway.url)
      await until(() => linesOf(gateway).length > linesBefore + 1, 'the next call has its line')
      const lines = linesOf(gateway).slice(linesBefore)
      matches(t, lines, [{ status: 200, keyId: /^key_/ }, { status: 302 }])
      t.ok(Number(lines[0]?.['sentBytes']) < bytes)
    }
  },
)

t.test(
  'behind a trusted proxy the log line names the address that the proxy reports',
  async (t) => {
    const gateway = await startGateway(t, backend.url, { TRUST_PROXY: '1' })
    await call(gateway.url, { headers: { 'x-forwarded-for': '1.1.1.1, 203.0.113.7' } })
    await until(() => linesOf(gateway).length === 1, 'the call has its log line')
    matches(t, linesOf(gateway), [{ status: 302, client: '203.0.113.7' }])
  },
)

t.test('ACCESS_LOG=off omits the log lines of calls, but not those of the process', async (t) => {
  const gateway = await startGateway(t, backend.url, { ACCESS_LOG: 'off' })
  await call(gateway.url)
  await exchangeBytes(gateway.port, 'junk\r\n\r\n')
  t.equal(await gateway.stop(), 0)
  t.strictSame(linesOf(gateway), [])
  matches(t, gateway.log(), containing('"msg":"drained"'))
})

t.test(
  'failed attempts are logged once a second, without a stack trace for each call',
  async (t) => {
    const gateway = await startGateway(t, backend.url)
    backend.respondWith((_, res) => res.destroy())
    for (let calls = 0; calls < 40; calls++) {
      await call(`${gateway.url}/api/v1/debtors`, { key, body: {} })
    }
    const stacks = () => gateway.log().split('"stack"').length - 1
    // Failed attempts and failed calls are logged with a stack trace only when they first occur.
    t.ok(stacks() <= 4, `${stacks()} stack traces`)
    await until(
      () =>
        /"more":\d\d,"seconds":1,"msg":"an attempt to forward a call failed"/.test(gateway.log()),
      'the further attempts are counted in one line',
    )
  },
)
