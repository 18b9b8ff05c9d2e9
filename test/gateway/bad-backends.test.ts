/**
 * Every way in which a backend can fail: the client gets a problem that says what may have been done, or a connection
 * that breaks; never a response that looks complete and is not, and no pool is stuck.
 */

import { once } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { matches } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { type Behaviour, RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

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
const say =
  (bytes: string): Behaviour =>
  (socket) =>
    socket.write(bytes, 'latin1')
const sayAndEnd =
  (bytes: string): Behaviour =>
  (socket) =>
    socket.end(bytes, 'latin1')
const sayAndReset =
  (bytes: string): Behaviour =>
  (socket) =>
    socket.write(bytes, 'latin1', () => socket.resetAndDestroy())

/** What is done; the status of every call; how often a call that may be repeated is sent. */
const FAULTS: [what: string, behaviour: Behaviour, status: number, sent: number][] = [
  ['closed before a byte', (socket) => socket.end(), 502, 2],
  ['reset before a byte', (socket) => socket.resetAndDestroy(), 502, 2],
  ['stalled before a byte', () => {}, 504, 1],
  ['stalled in its first line', say('HTTP/1.'), 504, 1],
  ['stalled in its head', say('HTTP/1.1 200 OK\r\nContent-Le'), 504, 1],
  ['stalled in its body', say(`${head('Content-Length: 9')}{}`), 504, 1],
  ['stalled in a chunk', say(`${head('Transfer-Encoding: chunked')}9\r\n{}`), 504, 1],
  ['reset in its head', sayAndReset('HTTP/1.1 200 OK\r\nContent-Le'), 502, 1],
  ['reset in its body', sayAndReset(`${head('Content-Length: 9')}{}`), 502, 1],
  ['reset in a chunk', sayAndReset(`${head('Transfer-Encoding: chunked')}9\r\n{}`), 502, 1],
  ['closed in its head', sayAndEnd('HTTP/1.1 200 OK\r\nContent-Le'), 502, 1],
  ['closed in its body', sayAndEnd(`${head('Content-Length: 9')}{}`), 502, 1],
  [
    'closed before its last chunk',
    sayAndEnd(`${head('Transfer-Encoding: chunked')}2\r\n{}\r\n`),
    502,
    1,
  ],
  ['ended by its connection alone', sayAndEnd(`${head('Content-Type: text/plain')}{}`), 502, 1],
  ['an answer of HTTP/1.0', sayAndEnd('HTTP/1.0 200 OK\r\n\r\n{}'), 502, 1],
  ['garbage', say('garbage\r\n\r\n'), 502, 1],
  ['HTTP/2', say('\x00\x00\x12\x04\x00\x00\x00\x00\x00'), 502, 1],
  ['a wrong version', say('HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n'), 502, 1],
  ['garbage in its head', say('HTTP/1.1 200 OK\r\nno colon\r\n\r\n'), 502, 1],
  ['garbage for a length', say(`${head('Content-Length: x')}{}`), 502, 1],
  ['two lengths', say(`${head('Content-Length: 2', 'Content-Length: 3')}{}`), 502, 1],
  [
    'a length and a coding',
    say(`${head('Content-Length: 2', 'Transfer-Encoding: chunked')}0\r\n\r\n`),
    502,
    1,
  ],
  ['garbage for a chunk', say(`${head('Transfer-Encoding: chunked')}zz\r\n`), 502, 1],
  ['a coding that is not chunked', sayAndEnd(`${head('Transfer-Encoding: gzip')}{}`), 502, 1],
  ['a control character in a header', say(`${head('X-A: \x01', 'Content-Length: 2')}{}`), 502, 1],
  ['a huge header', say(`${head(`X-A: ${'x'.repeat(100_000)}`, 'Content-Length: 2')}{}`), 502, 1],
  ['no end of headers', say(`HTTP/1.1 200 OK\r\n${'X-A: 1\r\n'.repeat(20_000)}`), 502, 1],
  ...[0, 42, 99, 600, 999].map((status): [string, Behaviour, number, number] => {
    const code = String(status).padStart(3, '0')
    return [`status ${code}`, say(`HTTP/1.1 ${code} Odd\r\nContent-Length: 0\r\n\r\n`), 502, 1]
  }),
  [
    'status 101',
    say('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
    502,
    1,
  ],
  ['a flood of 1xx', say('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(1_000)), 502, 1],
  ['1xx and no answer', say('HTTP/1.1 103 Early Hints\r\n\r\n'), 504, 1],
  ['a bare 401', say('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n'), 502, 1],
  [
    'a large 401',
    say(`HTTP/1.1 401 Unauthorized\r\nContent-Length: 500000\r\n\r\n${'x'.repeat(500_000)}`),
    502,
    1,
  ],
]

for (const [what, behaviour, status, sent] of FAULTS) {
  t.test(`a malformed response, ${what}: ${status}`, async (t) => {
    backend.behave(behaviour)
    const from = backend.calls.length
    const responses = await Promise.all(
      [READ, KEYED_WRITE, WRITE].map((options, n) =>
        call(`${gateway.url}/api/v1/debtors?${n}`, options),
      ),
    )
    const sentTimes = [0, 1, 2].map(
      (n) => backend.calls.slice(from).filter((line) => line.includes(`?${n}`)).length,
    )
    t.strictSame(
      responses.map((response) => response.status),
      [status, status, status],
    )
    t.strictSame(sentTimes, [sent, sent, 1], 'a write without a key is sent once')
    for (const { json, headers } of responses) {
      t.equal(json.status, status, 'a problem')
      t.equal(json.request_id, headers['x-request-id'])
    }
    backend.behave(say(RAW_OK))
    const after = Array.from({ length: 2 * CONNECTIONS }, () =>
      call(`${gateway.url}/api/v1/debtors`, READ),
    )
    t.ok(
      (await Promise.all(after)).every((response) => response.status === 200),
      'the pool goes on',
    )
  })
}

const PASSED: [what: string, bytes: string, status: number, body: string][] = [
  ['a few 1xx before it', `HTTP/1.1 103 Early Hints\r\n\r\n${RAW_OK}`, 200, '{}'],
  ['chunks', `${head('Transfer-Encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`, 200, '{}'],
  ['a trailer', `${head('Transfer-Encoding: chunked')}2\r\n{}\r\n0\r\nX-A: 1\r\n\r\n`, 200, '{}'],
  ['bytes behind it', `${RAW_OK}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged`, 200, '{}'],
  ['no content', 'HTTP/1.1 204 No Content\r\n\r\n', 204, ''],
  ['no content of a length', 'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n', 204, ''],
  ['its own refusal', 'HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}', 409, '{}'],
  ['its own fault', 'HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}', 500, '{}'],
  ['a control byte in its reason', 'HTTP/1.1 200 O\x0bK\r\nContent-Length: 2\r\n\r\n{}', 200, '{}'],
]

for (const [what, bytes, status, body] of PASSED) {
  t.test(`a response with ${what} is forwarded`, async (t) => {
    backend.behave(say(bytes))
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
  const ours = ['Via: 1.0 x', 'X-RateLimit-Remaining: 7', 'X-Request-Id: forged', 'X-Powered-By: x']
  backend.behave(sayAndEnd(`${head(...lines, ...ours, 'X-Kept: 1', 'Content-Length: 2')}{}`))
  const { headers } = await call(`${gateway.url}/api/v1/debtors`, READ)
  t.equal(headers['x-kept'], '1')
  for (const name of ['x-private', 'x-own', 'server', 'via', 'x-powered-by'])
    t.notOk(name in headers, name)
  t.not(headers['x-ratelimit-remaining'], '7')
  t.not(headers['x-request-id'], 'forged')
  t.equal(headers['connection'], 'keep-alive')
})

t.test('a large response that is incomplete is incomplete for the client too', async (t) => {
  const begin = `${head('Content-Length: 1000000')}${'x'.repeat(500_000)}`
  const chunk = `${(500_000).toString(16)}\r\n${'x'.repeat(500_000)}\r\n`
  for (const behaviour of [
    sayAndEnd(begin),
    say(begin),
    sayAndEnd(`${head('Transfer-Encoding: chunked')}${chunk}`),
    say(`${head('Transfer-Encoding: chunked')}${chunk}zz\r\n`),
  ]) {
    backend.behave(behaviour)
    await t.rejects(call(`${gateway.url}/api/v1/debtors`, READ))
  }
  backend.behave(say(RAW_OK))
  t.equal((await call(`${gateway.url}/api/v1/debtors`, READ)).status, 200)
})

// Without this, a call could be sent on an idle connection at the moment that a draining backend closes it.
t.test('idle connections are closed once the backend ends one with its response', async (t) => {
  const waiting: Socket[] = []
  const last = head('Connection: close', 'Content-Length: 2')
  const bothReached = Promise.withResolvers<void>()
  backend.behave((socket) => {
    if (waiting.push(socket) === 2) bothReached.resolve()
  })
  const calls = [0, 1].map(() => call(`${gateway.url}/api/v1/debtors`, READ))
  await bothReached.promise
  const [idle, ended] = waiting
  if (idle === undefined || ended === undefined) throw new Error('two connections carry the calls')
  const idleClosed = once(idle, 'close')
  idle.write(RAW_OK)
  await calls[0]
  ended.end(`${last}{}`)
  for (const { status } of await Promise.all(calls)) t.equal(status, 200)
  let next: Socket | undefined
  backend.behave((socket) => {
    next = socket
    socket.write(RAW_OK)
  })
  t.equal((await call(`${gateway.url}/api/v1/debtors`, READ)).status, 200)
  t.not(next, idle, 'the next call opens a connection of its own')
  await idleClosed
})

// A connection that the backend closes while it is idle costs nobody an answer, where it may be sent
// again.
t.test('a stale connection fails neither a read nor a write with an Idempotency-Key', async (t) => {
  for (const options of [READ, KEYED_WRITE]) {
    for (let round = 0; round < 5; round++) {
      backend.behave((socket, calls) => {
        socket.write(RAW_OK)
        if (calls % 2 === 0) socket.end()
      })
      t.equal((await call(`${gateway.url}/api/v1/debtors`, options)).status, 200)
    }
  }
})

t.test('no connection or memory is left at the end', async (t) => {
  backend.behave(say(RAW_OK))
  // Four for calls, eight for keys never seen, as far as they were needed.
  await until(() => backend.connections() <= CONNECTIONS + 8, 'the connections are closed')
  t.equal(await gateway.stop(), 0, 'it drains')
})
