/**
 * Backends send many kinds of faulty responses to requests for pages. The client gets an error, never an incomplete
 * page that looks complete, and later pages are loaded.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { type CallOptions, call } from '../fixtures/service/call.ts'
import { EXCHANGE_MS_MAX, startGateway } from '../fixtures/service/gateway.ts'
import { FAULTS, head, send } from './fixtures/faulty-responses.ts'
import { RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

const TIMEOUT_MS = 1_000
const backend = await startRawBackend(t)
const gateway = await startGateway(t, backend.url, {
  GATEWAY_UPSTREAM_TIMEOUT_MS: String(TIMEOUT_MS),
  LOG_LEVEL: 'fatal',
})
const page = (options: CallOptions = {}) =>
  call(`${gateway.url}/settings/customers`, { timeoutMs: EXCHANGE_MS_MAX, ...options })
/** The number of connections for pages: a quarter of the default of BACKEND_CONNECTIONS. */
const CONNECTIONS_FOR_PAGES = 16

/**
 * The statuses that differ from those of calls. For pages, the gateway forwards a 401, and waits for a final response
 * until the deadline.
 */
const STATUSES: Readonly<Record<string, number>> = {
  'a flood of 1xx': 504,
  'a bare 401': 401,
  'a large 401': 401,
}

// Regression: a page waited forever after a 101 or while informational responses arrived; a page that stalled in its
// body got 502 instead of 504; and a page without a length was forwarded although it might have been incomplete.
for (const [what, behavior, callStatus] of FAULTS) {
  const status = STATUSES[what] ?? callStatus
  t.test(`if a page is faulty (${what}), the client gets ${status}`, async (t) => {
    backend.setBehavior(behavior)
    const callsBefore = backend.calls.length
    const responses = await Promise.all([page(), page({ method: 'POST', body: 'a=b' })])
    for (const response of responses) t.equal(response.status, status)
    const sent = backend.calls.slice(callsBefore).filter((line) => line.startsWith('POST'))
    t.equal(sent.length, 1, 'a form is sent once')
    backend.setBehavior(send(RAW_OK))
    const after = Array.from({ length: CONNECTIONS_FOR_PAGES }, () => page())
    for (const { status } of await Promise.all(after)) t.equal(status, 200)
  })
}

t.test('a page gets 504 although informational responses keep arriving', async (t) => {
  backend.setBehavior((socket) => {
    const drip = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'), TIMEOUT_MS / 4)
    socket.on('close', () => clearInterval(drip))
  })
  t.equal((await page()).status, 504)
})

// Regression: the time in which the client read nothing counted as a pause of the backend.
t.test(
  'a large page arrives completely although its client pauses for longer than a backend may',
  async (t) => {
    const size = 16 * 1024 * 1024
    backend.setBehavior(send(head(`Content-Length: ${size}`) + 'x'.repeat(size)))
    const socket = connect(gateway.port, '127.0.0.1')
    socket.write('GET /docs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    let bytes = 0
    socket.on('data', (part: Buffer) => {
      bytes += part.length
    })
    await once(socket, 'data')
    socket.pause()
    // These pages get no response: each takes as long as a backend may pause.
    backend.setBehavior(() => {})
    for (let round = 0; round < 2; round++) t.equal((await page()).status, 504)
    socket.resume()
    await once(socket, 'end')
    t.ok(bytes > size, 'all bytes have arrived')
  },
)
