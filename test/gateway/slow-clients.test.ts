/** Clients that send or read too slowly are disconnected in time, and do not affect other clients. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import { untilClosed } from '../fixtures/servers/until-closed.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { exchangeBytes, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const CROWD = Number(process.env['CROWD'] ?? 1_000)
const LARGE = Buffer.alloc(1024 * 1024, 'x')

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, {
  GATEWAY_REQUEST_TIMEOUT_MS: '1500',
  GATEWAY_ANSWER_TIMEOUT_MS: '1500',
  BACKEND_CONNECTIONS: '8',
  LOG_LEVEL: 'fatal',
})
const key = backend.issue(undefined, 1_000_000)
const url = `${gateway.url}/api/v1/debtors`

const HEADERS = `Host: api.test\r\nAuthorization: Bearer ${key}\r\n`
const GET = `GET /api/v1/debtors HTTP/1.1\r\n${HEADERS}\r\n`
const CLOSING_GET = GET.replace('Host', 'Connection: close\r\nHost')
const POST = `POST /api/v1/debtors HTTP/1.1\r\n${HEADERS}`

async function open(t: Test, bytes = '') {
  const socket = connect(gateway.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(bytes)
  return socket
}

/** Sends `more` every 50 ms until the gateway closes the connection. Resolves with the bytes that the gateway sent. */
async function drip(t: Test, begin: string, more: string): Promise<string> {
  const socket = await open(t, begin)
  const timer = setInterval(() => socket.write(more), 50)
  t.teardown(() => clearInterval(timer))
  let text = ''
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
  })
  await untilClosed(socket)
  clearInterval(timer)
  return text
}

/** Returns the resident memory of the gateway in MiB. */
const residentMib = () =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]) / 1024

t.test(
  'a request that arrives too slowly gets 408, reaches no backend, and its connection is closed',
  async (t) => {
    const slow: Record<string, [begin: string, more: string]> = {
      'nothing at all': ['', ''],
      // Regression: each empty line restarted the deadline, so that the connection stayed open forever.
      'empty lines': ['', '\r\n'],
      'empty lines in pieces': ['\r', '\n\r'],
      'a request line': ['GET /api', 'x'],
      'a head': [`GET /api/v1/debtors HTTP/1.1\r\n${HEADERS}X-A: `, 'x'],
      'many headers': [`GET /api/v1/debtors HTTP/1.1\r\n${HEADERS}`, 'X-A: b\r\n'],
      'a body': [`${POST}Content-Length: 100000\r\n\r\n`, 'x'],
      'a body of small chunks': [`${POST}Transfer-Encoding: chunked\r\n\r\n`, '1\r\nx\r\n'],
      'a chunk that never ends': [`${POST}Transfer-Encoding: chunked\r\n\r\nffffffffffff\r\n`, 'x'],
      'a body after a valid call': [`${GET}${POST}Content-Length: 100000\r\n\r\n`, 'x'],
    }
    const cases = Object.entries(slow).map(async ([what, [begin, more]]) => {
      const text = await drip(t, begin, more)
      matches(
        t,
        text.slice(text.lastIndexOf('HTTP/1.1 ')),
        /^HTTP\/1\.1 408 [\s\S]*"request_timeout"/,
        what,
      )
    })
    await Promise.all(cases)
    t.equal(backend.requests.length, 1, 'only the valid call reached the backend')
  },
)

// Regression: each part was stored separately, which took a hundred times its size.
t.test('eight bodies of 250 KB in one-byte chunks use less than 128 MiB of memory', async (t) => {
  const separate = await startGateway(t, backend.url, {
    GATEWAY_REQUEST_TIMEOUT_MS: '5000',
    LOG_LEVEL: 'fatal',
  })
  const peakMib = () =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${separate.pid}/status`, 'utf8'))?.[1]) / 1024
  const before = peakMib()
  const begun = `${POST}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(250_000)}`
  await Promise.all(
    Array.from({ length: 8 }, () => exchangeBytes(separate.port, begun, { halfClose: true })),
  )
  t.comment(`resident memory ${before.toFixed(0)} MiB before, ${peakMib().toFixed(0)} MiB at most`)
  t.ok(peakMib() - before < 128)
})

t.test(
  'a client that does not read its responses is disconnected, and uses little memory',
  async (t) => {
    backend.respondWith((_, res) => {
      res.writeHead(200, { 'content-length': 50 * LARGE.length })
      for (let part = 0; part < 50; part++) res.write(LARGE)
      res.end()
    })
    const before = residentMib()
    const readers = await Promise.all(Array.from({ length: 20 }, () => open(t, CLOSING_GET)))
    for (const reader of readers) reader.pause()
    const disconnected = Promise.all(readers.map(untilDisconnected))
    await until(() => backend.requests.length >= 5, 'the backend has begun to respond')
    backend.respondWith((_, res) => res.end('{}'))
    // These calls use another key: calls of the readers' key wait for the readers, or are shed.
    const other = backend.issue()
    const during = await Promise.all(Array.from({ length: 6 }, () => call(url, { key: other })))
    t.ok(
      during.every(({ status }) => status === 200),
      'other calls are served',
    )
    await disconnected
    t.comment(
      `resident memory ${before.toFixed(0)} MiB before, ${residentMib().toFixed(0)} MiB after`,
    )
    t.ok(residentMib() - before < 128)
  },
)

t.test(
  'a client that reads steadily receives a response that takes longer than the timeout',
  async (t) => {
    // Regression: a CSV file that a client could not receive within 30 s could never be downloaded.
    const parts = 80
    backend.respondWith((_, res) => {
      res.writeHead(200, { 'content-length': parts * LARGE.length })
      for (let part = 0; part < parts; part++) res.write(LARGE)
      res.end()
    })
    const socket = await open(t, CLOSING_GET)
    let received = 0
    // The client reads about a megabyte every 50 ms, which takes four seconds in all.
    let readable = 0
    const timer = setInterval(() => {
      readable += LARGE.length
      socket.resume()
    }, 50)
    t.teardown(() => clearInterval(timer))
    socket.on('data', (chunk: Buffer) => {
      received += chunk.length
      if (received > readable) socket.pause()
    })
    await untilClosed(socket)
    t.ok(received > parts * LARGE.length, `${received} bytes were received`)
  },
)

t.test('pipelined requests wait until the responses to earlier requests are flushed', async (t) => {
  const requestsBefore = backend.requests.length
  backend.respondWith((_, res) => res.end(LARGE.subarray(0, 200_000)))
  const socket = await open(t, GET.repeat(500))
  socket.pause()
  await untilDisconnected(socket)
  const requested = backend.requests.length - requestsBefore
  t.comment(`${requested} of 500 requests reached the backend`)
  t.ok(requested < 100)
})

t.test('many slow or idle clients do not slow down another client much', async (t) => {
  backend.respondWith((_, res) => res.end('{}'))
  await measure(300)
  const alone = await measure(1_000)
  const crowd = await Promise.all(
    Array.from({ length: CROWD }, (_, index) => open(t, index % 2 === 0 ? '' : 'GET /api')),
  )
  const timer = setInterval(() => {
    for (const [index, socket] of crowd.entries()) if (index % 2 === 1) socket.write('x')
  }, 200)
  const inCrowd = await measure(1_000)
  clearInterval(timer)
  t.comment(
    `p50 and p99 alone ${alone.join(', ')} ms; among ${CROWD} other clients ${inCrowd.join(', ')} ms`,
  )
  t.ok(
    (inCrowd[1] ?? 0) < 10 * ((alone[1] ?? 0) + 5),
    'the p99 is below ten times the p99 alone plus 50 ms',
  )
  for (const socket of crowd) socket.resume()
  await until(
    () => crowd.every((socket) => socket.closed || socket.readableEnded),
    'the gateway has closed all of them',
  )
})

/** Resolves when the kernel shows that the gateway has closed the connection. An unread socket does not report this. */
async function untilDisconnected(socket: Socket): Promise<void> {
  const { localPort } = socket
  const clientPort = `:${(localPort ?? 0).toString(16).toUpperCase().padStart(4, '0')} `
  const gatewayPort = `:${gateway.port.toString(16).toUpperCase().padStart(4, '0')} `
  await until(
    () => {
      const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n')
      const line = lines.find(
        (entry) =>
          entry.includes(gatewayPort) && entry.indexOf(gatewayPort) < entry.indexOf(clientPort),
      )
      // The state 01 means established.
      return line === undefined || !/ 01 /.test(line)
    },
    'the client is disconnected',
    15_000,
  )
  socket.destroy()
}

/** Makes calls, one after another. Resolves with the median and the 99th percentile of their durations in ms. */
async function measure(calls: number): Promise<number[]> {
  const times: number[] = []
  for (let round = 0; round < calls; round++) {
    const from = performance.now()
    await call(url, { key })
    times.push(performance.now() - from)
  }
  times.sort((a, b) => a - b)
  return [0.5, 0.99].map((share) => Math.round(100 * (times[Math.floor(share * calls)] ?? 0)) / 100)
}
