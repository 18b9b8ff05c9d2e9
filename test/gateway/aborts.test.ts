/** Clients disconnect at different points of a call. The gateway then releases all resources of the call. */
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const ROUNDS = 12
const CONNECTIONS = 4
const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, {
  BACKEND_CONNECTIONS: String(CONNECTIONS),
  LOG_LEVEL: 'error',
})
const key = backend.issue(undefined, 1_000_000)
const url = `${gateway.url}/api/v1/debtors`
const HEADERS = `Host: api.test\r\nAuthorization: Bearer ${key}\r\n`
const GET = `GET /api/v1/debtors HTTP/1.1\r\n${HEADERS}\r\n`
const POST = `POST /api/v1/debtors HTTP/1.1\r\n${HEADERS}`

/** Whether the gateway has ended all work for the clients that have disconnected. */
async function isIdle(): Promise<boolean> {
  const metrics = await (
    await fetch(`http://${gateway.address}:${gateway.operationsPort}/metrics`)
  ).text()
  const unfinished =
    /^receivables_gateway_(?:calls_waiting|key_lookups_in_flight|upstream_in_flight)(?:\{.*\})? (?!0$)/m
  return !unfinished.test(metrics)
}

const countDescriptors = () => readdirSync(`/proc/${gateway.pid}/fd`).length

const openResponses: Set<ServerResponse> = new Set()
const keepOpen = (res: ServerResponse) => {
  openResponses.add(res)
  res.on('close', () => openResponses.delete(res))
}
const LARGE = Buffer.alloc(4 * 1024 * 1024, 'x')

type Phase = {
  readonly bytes: string
  readonly respond?: (res: ServerResponse) => void
  /** When the client disconnects; by default as soon as it has written. */
  readonly until?: 'backend has the call' | 'response begins'
}

const PHASES: Record<string, Phase> = {
  'before it sends a byte': { bytes: '' },
  'in the request line': { bytes: 'GET /api/v1' },
  'in the head': { bytes: GET.slice(0, -10) },
  'in the body': { bytes: `${POST}Content-Length: 100000\r\n\r\n${'x'.repeat(50_000)}` },
  'in a chunk': { bytes: `${POST}Transfer-Encoding: chunked\r\n\r\n9000\r\n${'x'.repeat(9_000)}` },
  'after 100 Continue': {
    bytes: `${POST}Content-Length: 9\r\nExpect: 100-continue\r\n\r\n`,
    until: 'response begins',
  },
  'in a body over the limit': {
    bytes: `${POST}Content-Length: 9999999\r\n\r\n${'x'.repeat(70_000)}`,
  },
  'right after its request': { bytes: GET },
  'while the backend processes the call': {
    bytes: GET,
    respond: keepOpen,
    until: 'backend has the call',
  },
  'while the backend processes the first of ten pipelined calls': {
    bytes: GET.repeat(10),
    respond: keepOpen,
    until: 'backend has the call',
  },
  'in a small response': {
    bytes: GET,
    respond(res) {
      keepOpen(res)
      res.writeHead(200, { 'content-length': 100 })
      res.write('x')
    },
    until: 'backend has the call',
  },
  'in a large response': {
    bytes: GET,
    respond(res) {
      keepOpen(res)
      res.writeHead(200, { 'content-length': 2 * LARGE.length })
      res.write(LARGE)
    },
    until: 'response begins',
  },
}

await call(url, { key })
const descriptorsBefore = countDescriptors()

for (const [phase, { bytes, respond, until: moment }] of Object.entries(PHASES)) {
  for (const [how, disconnect] of [
    ['closes', 'destroy'],
    ['resets', 'resetAndDestroy'],
  ] as const) {
    t.test(`a client that ${how} its connection ${phase} leaves no resources in use`, async (t) => {
      backend.respondWith((_, res) => (respond === undefined ? res.end('{}') : respond(res)))
      for (let round = 0; round < ROUNDS; round++) {
        const requestsBefore = backend.requests.length
        const socket = connect(gateway.port, '127.0.0.1')
        socket.on('error', () => {})
        await once(socket, 'connect')
        socket.write(bytes)
        if (moment === 'backend has the call') {
          await until(() => backend.requests.length > requestsBefore, 'the backend has the call')
        }
        if (moment === 'response begins') await once(socket, 'data')
        socket[disconnect]()
      }
      await until(() => openResponses.size === 0, 'the calls are aborted at the backend')
      await until(isIdle, 'the gateway is idle')
      backend.respondWith((_, res) => res.end('{}'))
      const responses = Array.from({ length: 2 * CONNECTIONS }, () => call(url, { key }))
      t.ok((await Promise.all(responses)).every(({ status }) => status === 200))
    })
  }
}

// Regression: the memory of a page's form was never released, so that every body was rejected after a while.
t.test('pages whose clients have disconnected release their memory', async (t) => {
  const form = `POST /settings/x HTTP/1.1\r\nHost: api.test\r\nContent-Length: 250000\r\n\r\n${'x'.repeat(250_000)}`
  backend.respondWith((_, res) => keepOpen(res))
  for (let round = 0; round < 300; round++) {
    const requestsBefore = backend.requests.length
    const socket = connect(gateway.port, '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(form)
    await until(() => backend.requests.length > requestsBefore, 'the backend has the request')
    socket.resetAndDestroy()
  }
  await until(() => openResponses.size === 0, 'the calls are aborted at the backend')
  backend.respondWith((_, res) => res.end('{}'))
  t.equal((await call(url, { key, body: {} })).status, 200)
})

t.test('at most a few sockets stay open, and the log has no error', async (t) => {
  await until(
    () => countDescriptors() <= descriptorsBefore + 2 * CONNECTIONS + 4,
    'the sockets are closed',
  )
  t.equal(gateway.log(), '')
  t.equal(await gateway.stop(), 0, 'the gateway drains')
})
