/**
 * Backends send many kinds of faulty responses. The client gets an error that says whether its call may have had an
 * effect, or its connection breaks. It never gets an incomplete response that looks complete, and later calls succeed.
 */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { matches } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { type Behavior, RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

const CONNECTIONS = 4
const backend = await startRawBackend(t)
const gateway = await startGateway(t, backend.url, {
  BACKEND_CONNECTIONS: String(CONNECTIONS),
  GATEWAY_UPSTREAM_TIMEOUT_MS: '1000',
  LOG_LEVEL: 'fatal',
})
const key = mintApiKey().secret
const READ = { key }
const WRITE = { key, body: {} }
const KEYED_WRITE = { ...WRITE, headers: { 'idempotency-key': 'abc' } }

const head = (...lines: string[]) =>
  `HTTP/1.1 200 OK\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`
const send =
  (bytes: string): Behavior =>
  (socket) =>
    socket.write(bytes, 'latin1')
const sendAndEnd =
  (bytes: string): Behavior =>
  (socket) =>
    socket.end(bytes, 'latin1')
const sendAndReset =
  (bytes: string): Behavior =>
  (socket) =>
    socket.write(bytes, 'latin1', () => socket.resetAndDestroy())

/** For each fault: the status of every call, and how often a call that may be repeated is sent. */
const FAULTS: [what: string, behavior: Behavior, status: number, sent: number][] = [
  ['closed before a byte', (socket) => socket.end(), 502, 2],
  ['reset before a byte', (socket) => socket.resetAndDestroy(), 502, 2],
  ['stalled before a byte', () => {}, 504, 1],
  ['stalled in its first line', send('HTTP/1.'), 504, 1],
  ['stalled in its head', send('HTTP/1.1 200 OK\r\nContent-Le'), 504, 1],
  ['stalled in its body', send(`${head('Content-Length: 9')}{}`), 504, 1],
  ['stalled in a chunk', send(`${head('Transfer-Encoding: chunked')}9\r\n{}`), 504, 1],
  ['reset in its head', sendAndReset('HTTP/1.1 200 OK\r\nContent-Le'), 502, 1],
  ['reset in its body', sendAndReset(`${head('Content-Length: 9')}{}`), 502, 1],
  ['reset in a chunk', sendAndReset(`${head('Transfer-Encoding: chunked')}9\r\n{}`), 502, 1],
  ['closed in its head', sendAndEnd('HTTP/1.1 200 OK\r\nContent-Le'), 502, 1],
  ['closed in its body', sendAndEnd(`${head('Content-Length: 9')}{}`), 502, 1],
  [
    'closed before its last chunk',
    sendAndEnd(`${head('Transfer-Encoding: chunked')}2\r\n{}\r\n`),
    502,
    1,
  ],
  [
    'no length, so that it ends with its connection',
    sendAndEnd(`${head('Content-Type: text/plain')}{}`),
    502,
    1,
  ],
  ['a response of HTTP/1.0', sendAndEnd('HTTP/1.0 200 OK\r\n\r\n{}'), 502, 1],
  ['garbage', send('garbage\r\n\r\n'), 502, 1],
  ['HTTP/2', send('\x00\x00\x12\x04\x00\x00\x00\x00\x00'), 502, 1],
  ['a wrong version', send('HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n'), 502, 1],
  ['garbage in its head', send('HTTP/1.1 200 OK\r\nno colon\r\n\r\n'), 502, 1],
  ['garbage for a length', send(`${head('Content-Length: x')}{}`), 502, 1],
  ['two lengths', send(`${head('Content-Length: 2', 'Content-Length: 3')}{}`), 502, 1],
  [
    'a length and a coding',
    send(`${head('Content-Length: 2', 'Transfer-Encoding: chunked')}0\r\n\r\n`),
    502,
    1,
  ],
  ['garbage for a chunk', send(`${head('Transfer-Encoding: chunked')}zz\r\n`), 502, 1],
  ['a coding that is not chunked', sendAndEnd(`${head('Transfer-Encoding: gzip')}{}`), 502, 1],
  ['a control character in a header', send(`${head('X-A: \x01', 'Content-Length: 2')}{}`), 502, 1],
  ['a huge header', send(`${head(`X-A: ${'x'.repeat(100_000)}`, 'Content-Length: 2')}{}`), 502, 1],
  ['no end of headers', send(`HTTP/1.1 200 OK\r\n${'X-A: 1\r\n'.repeat(20_000)}`), 502, 1],
  ...[0, 42, 99, 600, 999].map((status): [string, Behavior, number, number] => {
    const code = String(status).padStart(3, '0')
    return [`status ${code}`, send(`HTTP/1.1 ${code} Odd\r\nContent-Length: 0\r\n\r\n`), 502, 1]
  }),
  [
    'status 101',
    send('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
    502,
    1,
  ],
  ['a flood of 1xx', send('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(1_000)), 502, 1],
  ['1xx and no final response', send('HTTP/1.1 103 Early Hints\r\n\r\n'), 504, 1],
  ['a bare 401', send('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n'), 502, 1],
  [
    'a large 401',
    send(`HTTP/1.1 401 Unauthorized\r\nContent-Length: 500000\r\n\r\n${'x'.repeat(500_000)}`),
    502,
    1,
  ],
]

for (const [what, behavior, status, sent] of FAULTS) {
  t.test(
    `if the response of a backend is faulty (${what}), the client gets ${status}`,
    async (t) => {
      backend.setBehavior(behavior)
      const callsBefore = backend.calls.length
      const responses = await Promise.all(
        [READ, KEYED_WRITE, WRITE].map((options, n) =>
          call(`${gateway.url}/api/v1/debtors?${n}`, options),
        ),
      )
      const sentTimes = [0, 1, 2].map(
        (n) => backend.calls.slice(callsBefore).filter((line) => line.includes(`?${n}`)).length,
      )
      t.strictSame(
        responses.map((response) => response.status),
        [status, status, status],
      )
      t.strictSame(sentTimes, [sent, sent, 1], 'a write without a key is sent once')
      for (const { json, headers } of responses) {
        t.equal(json.status, status, 'the body is a problem')
        t.equal(json.request_id, headers['x-request-id'])
      }
      backend.setBehavior(send(RAW_OK))
      const after = Array.from({ length: 2 * CONNECTIONS }, () =>
        call(`${gateway.url}/api/v1/debtors`, READ),
      )
      t.ok(
        (await Promise.all(after)).every((response) => response.status === 200),
        'later calls succeed',
      )
    },
  )
}

const PASSED: [what: string, bytes: string, status: number, body: string][] = [
  ['a few 1xx before it', `HTTP/1.1 103 Early Hints\r\n\r\n${RAW_OK}`, 200, '{}'],
  ['chunks', `${head('Transfer-Encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`, 200, '{}'],
  ['a trailer', `${head('Transfer-Encoding: chunked')}2\r\n{}\r\n0\r\nX-A: 1\r\n\r\n`, 200, '{}'],
  ['bytes after it', `${RAW_OK}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged`, 200, '{}'],
  ['no content', 'HTTP/1.1 204 No Content\r\n\r\n', 204, ''],
  ['no content, but a length', 'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n', 204, ''],
  ['a rejection by the backend', 'HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}', 409, '{}'],
  ['an error of the backend', 'HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}', 500, '{}'],
  ['a control byte in its reason', 'HTTP/1.1 200 O\x0bK\r\nContent-Length: 2\r\n\r\n{}', 200, '{}'],
]

for (const [what, bytes, status, body] of PASSED) {
  t.test(`a response with ${what} is forwarded`, async (t) => {
    backend.setBehavior(send(bytes))
    for (let round = 0; round < 3; round++) {
      const response = await call(`${gateway.url}/api/v1/debtors`, READ)
      matches(t, response, { status, text: body })
      if (status === 204) t.notOk(response.headers['content-length'])
      t.notMatch(response.text, 'forged')
    }
  })
}

t.test('a backend cannot set headers of the connection or of the gateway', async (t) => {
  const lines = [
    'Connection: close, X-Private',
    'Connection: keep-alive , X-Own',
    'X-Private: 1',
    'X-Own: 1',
    'Keep-Alive: timeout=1',
    'Server: x',
  ]
  const gatewayLines = [
    'Via: 1.0 x',
    'X-RateLimit-Remaining: 7',
    'X-Request-Id: forged',
    'X-Powered-By: x',
  ]
  backend.setBehavior(
    sendAndEnd(`${head(...lines, ...gatewayLines, 'X-Kept: 1', 'Content-Length: 2')}{}`),
  )
  const { headers } = await call(`${gateway.url}/api/v1/debtors`, READ)
  t.equal(headers['x-kept'], '1')
  for (const name of ['x-private', 'x-own', 'server', 'via', 'x-powered-by'])
    t.notOk(name in headers, name)
  t.not(headers['x-ratelimit-remaining'], '7')
  t.not(headers['x-request-id'], 'forged')
  t.equal(headers['connection'], 'keep-alive')
})

t.test('if a large response breaks off, the connection of the client breaks too', async (t) => {
  const begin = `${head('Content-Length: 1000000')}${'x'.repeat(500_000)}`
  const chunk = `${(500_000).toString(16)}\r\n${'x'.repeat(500_000)}\r\n`
  for (const behavior of [
    sendAndEnd(begin),
    send(begin),
    sendAndEnd(`${head('Transfer-Encoding: chunked')}${chunk}`),
    send(`${head('Transfer-Encoding: chunked')}${chunk}zz\r\n`),
  ]) {
    backend.setBehavior(behavior)
    await t.rejects(call(`${gateway.url}/api/v1/debtors`, READ))
  }
  backend.setBehavior(send(RAW_OK))
  t.equal((await call(`${gateway.url}/api/v1/debtors`, READ)).status, 200)
})

// Regression: a call could be sent on an idle connection at the moment that a draining backend closes it.
t.test(
  'once a response has Connection: close, idle connections to its backend are closed',
  async (t) => {
    const waiting: Socket[] = []
    const closingHead = head('Connection: close', 'Content-Length: 2')
    const bothReached = Promise.withResolvers<void>()
    backend.setBehavior((socket) => {
      if (waiting.push(socket) === 2) bothReached.resolve()
    })
    const calls = [0, 1].map(() => call(`${gateway.url}/api/v1/debtors`, READ))
    await bothReached.promise
    const [idle, ended] = waiting
    if (idle === undefined || ended === undefined)
      throw new Error('the calls must use two connections')
    const idleClosed = once(idle, 'close')
    idle.write(RAW_OK)
    await calls[0]
    ended.end(`${closingHead}{}`)
    for (const { status } of await Promise.all(calls)) t.equal(status, 200)
    let next: Socket | undefined
    backend.setBehavior((socket) => {
      next = socket
      socket.write(RAW_OK)
    })
    t.equal((await call(`${gateway.url}/api/v1/debtors`, READ)).status, 200)
    t.not(next, idle, 'the next call uses a new connection')
    await idleClosed
  },
)

// If the backend has closed an idle connection, a call that may be repeated is sent again over another one.
t.test(
  'despite a closed idle connection, a read and a write with an Idempotency-Key succeed',
  async (t) => {
    for (const options of [READ, KEYED_WRITE]) {
      for (let round = 0; round < 5; round++) {
        backend.setBehavior((socket, index) => {
          socket.write(RAW_OK)
          if (index % 2 === 0) socket.end()
        })
        t.equal((await call(`${gateway.url}/api/v1/debtors`, options)).status, 200)
      }
    }
  },
)

t.test('at the end, no connections are open except those of the pools', async (t) => {
  backend.setBehavior(send(RAW_OK))
  // Up to four for calls, and a few for internal requests and look-ups of unknown keys.
  await until(() => backend.connections() <= CONNECTIONS + 8, 'the connections are closed')
  t.equal(await gateway.stop(), 0, 'the gateway drains')
})
