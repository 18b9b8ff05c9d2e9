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
import { FAULTS, head, send, sendAndEnd } from './fixtures/faulty-responses.ts'
import { RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

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
      // Regression: a client was advised to retry with its `Idempotency-Key` even if it had sent none.
      if (status === 502 || status === 504) {
        matches(t, responses, [
          { json: { detail: /Try again in a second\.$/ } },
          { json: { detail: /unknown; retry with the same Idempotency-Key\.$/ } },
          {
            json: {
              detail:
                /unknown\. Check this before you retry: the request had no Idempotency-Key, so it may be carried out twice\.$/,
            },
          },
        ])
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

for (const [what, bytes] of [
  ['with bytes after it', `${RAW_OK}x`],
  ['of HTTP/1.0', RAW_OK.replace('1.1', '1.0')],
] as const) {
  t.test(`after a response ${what}, its connection is not used again`, async (t) => {
    const used = new Set<Socket>()
    backend.setBehavior((socket) => {
      t.notOk(used.has(socket), 'the call uses another connection')
      used.add(socket)
      socket.write(bytes)
    })
    for (let calls = 0; calls < 3; calls++) {
      matches(t, await call(`${gateway.url}/api/v1/debtors`, READ), { status: 200, text: '{}' })
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
  t.notMatch(String(headers['keep-alive']), /\btimeout=1\b/)
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

// Regression: the client got the 503 of the retry, which says that nothing was done, although the first attempt may
// have taken effect.
t.test('if a write is lost and its retry gets 503, the client gets 502', async (t) => {
  // A new gateway may retry ten calls.
  const { url } = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal' })
  const unavailable = (bytes: number) =>
    `HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: ${bytes}\r\n\r\n`
  const large = 3 * 1024 * 1024
  const responses = { small: `${unavailable(2)}{}`, large: unavailable(large) + 'x'.repeat(large) }
  const responseAfter = async (lostAttempts: number, bytes: string, options: typeof READ) => {
    const callsBefore = backend.calls.length
    let last: Socket | undefined
    backend.setBehavior((socket, index) => {
      if (index < callsBefore + lostAttempts) return void socket.destroy()
      last = socket
      socket.write(bytes)
    })
    const response = await call(`${url}/api/v1/debtors`, options)
    t.equal(backend.calls.length - callsBefore, lostAttempts + 1)
    return { ...response, socket: last }
  }
  for (const [size, bytes] of Object.entries(responses)) {
    const { socket, ...response } = await responseAfter(1, bytes, KEYED_WRITE)
    matches(
      t,
      response,
      { status: 502, json: { detail: /unknown; retry with the same Idempotency-Key\.$/ } },
      size,
    )
    if (size === 'large') await until(() => socket?.destroyed === true, 'the response is dropped')
  }
  matches(t, await responseAfter(1, responses.small, READ), { status: 503 }, 'a read has no effect')
  matches(
    t,
    await responseAfter(0, responses.small, KEYED_WRITE),
    { status: 503 },
    'no attempt was lost',
  )
})

// Regression: the time that the first attempt took was deducted from the time that the retry may wait for a connection.
t.test('a retry waits for a connection even if the first attempt took long', async (t) => {
  const backends = [await startRawBackend(t), await startRawBackend(t)]
  const { url } = await startGateway(t, backends.map((each) => each.url).join(), {
    BACKEND_CONNECTIONS: '1',
    LOG_LEVEL: 'fatal',
  })
  const calls: string[] = []
  for (const each of backends) {
    each.setBehavior((socket, _index, request) => {
      calls.push(request.slice(request.indexOf('?') + 1, request.indexOf(' HTTP/')))
      // The first attempt takes longer than a call may wait for a connection.
      if (calls.length === 1) setTimeout(() => socket.destroy(), 5_500)
      else setTimeout(() => socket.write(RAW_OK), calls.length === 2 ? 7_000 : 0)
    })
  }
  const responses = await Promise.all(
    ['first', 'second'].map((name) => call(`${url}/api/v1/debtors?${name}`, READ)),
  )
  t.strictSame(
    responses.map(({ status }) => status),
    [200, 200],
  )
  t.equal(calls.length, 3)
  t.equal(calls[2], calls[0])
})

t.test('at the end, no connections are open except those of the pools', async (t) => {
  backend.setBehavior(send(RAW_OK))
  // Up to four for calls, and a few for internal requests and look-ups of unknown keys.
  await until(() => backend.connections() <= CONNECTIONS + 8, 'the connections are closed')
  t.equal(await gateway.stop(), 0, 'the gateway drains')
})
