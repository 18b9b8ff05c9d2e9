/** Large responses are streamed. Clients may abort, backends may stall, and there may be too many streams. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { request } from 'undici'
import { Abort } from '../../gateway/call/abort.ts'
import { watchBackendAddresses } from '../../gateway/upstream/addresses.ts'
import type { UpstreamRequest, UpstreamResponse } from '../../gateway/upstream/attempt.ts'
import { BackendSet } from '../../gateway/upstream/backend-set.ts'
import { createForwarder } from '../../gateway/upstream/forward.ts'
import { createLogger } from '../../shared/process/log.ts'
import { matches, rejectsWith } from '../fixtures/matches.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { GATEWAY_SECRET, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

const TIMEOUT_MS = 500
const MIB = 1024 * 1024

/** Starts two backends, of which one is used by default, and a forwarder that streams one response by default. */
async function start(t: Test, { usesBoth = false, streamsMax = 1 } = {}) {
  const backend = await startRawBackend(t)
  const peer = await startRawBackend(t)
  const log = createLogger('gateway', 'silent')
  const urls = usesBoth ? [backend.url, peer.url] : [backend.url]
  const addresses = watchBackendAddresses({ urls, log })
  const limits = { timeoutMs: TIMEOUT_MS, waitMs: 250, connections: 2 * streamsMax, streamsMax }
  const backends = new BackendSet({ addresses, gatewaySecrets: [GATEWAY_SECRET], log, ...limits })
  t.teardown(async () => {
    addresses.close()
    backends.close()
  })
  const forwarder = createForwarder({ backends, log, ...limits })
  const forward = (method = 'GET', accountId = 'acct_a') =>
    forwarder.forward(requestOf(method, accountId), new Abort(), {
      backend: undefined,
      upstreamMs: 0,
    })
  return { backend, peer, backends, forward }
}

function requestOf(method: string, accountId: string): UpstreamRequest {
  return {
    accountId,
    method,
    target: '/api/v1/debtors',
    headers: [],
    body: Buffer.alloc(0),
    idempotent: false,
  }
}

const large = (bytes: number, length = bytes) =>
  `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n${'x'.repeat(bytes)}`

function streamOf({ body }: UpstreamResponse): Readable {
  if (!(body instanceof Readable)) throw new Error('the response is not streamed')
  return body
}

// Regression: the abort closed a connection that already served another call, whose write was lost.
t.test('aborting a response that has arrived completely does not abort another call', async (t) => {
  const { backend, forward } = await start(t)
  backend.setBehavior((socket) => socket.write(large(MIB / 2)))
  const stream = streamOf(await forward())
  const waiting: Socket[] = []
  backend.setBehavior((socket) => waiting.push(socket))
  const other = forward('POST')
  await until(() => waiting.length === 1, 'the backend has the other call')
  stream.destroy()
  await once(stream, 'close')
  waiting[0]?.write(RAW_OK)
  matches(t, await other, { status: 200 })
  t.equal(backend.calls.length, 2, 'each call was sent once')
})

// Regression: a connection that waited for a slow client had no deadline.
t.test('a call to a backend that stalls ends in time, even if its client is slow', async (t) => {
  const { backend, forward } = await start(t)
  // The gateway buffers this much for a slow client, and then stops reading. The backend sends no more.
  backend.setBehavior((socket) => socket.write(large(MIB, 2 * MIB)))
  const stalled = streamOf(await forward())
  await until(() => stalled.readableLength === MIB, 'the gateway has stopped reading')
  await t.rejects(stalled.resume().toArray())
})

// Regression: such an error ended the gateway.
t.test('a response may break off before it is read', async (t) => {
  const { backend, forward } = await start(t)
  let connection: Socket | undefined
  backend.setBehavior((socket) => {
    connection = socket
    socket.write(large(MIB / 2, MIB))
  })
  const stream = streamOf(await forward())
  // `once` of node:events would handle the error.
  const closed = new Promise((resolve) => stream.on('close', resolve))
  connection?.resetAndDestroy()
  await closed
  await t.rejects(stream.toArray())
})

// Regression: the write got 504, although its outcome was known.
t.test(
  'while all streams are in use, a large response to a read becomes a 503, and one to a write is delivered',
  async (t) => {
    const { backend, forward } = await start(t)
    backend.setBehavior((socket) => socket.write(large(MIB / 2, MIB)))
    const first = streamOf(await forward('GET'))
    await rejectsWith(t, forward('GET'), { code: 'service_unavailable' })
    backend.setBehavior((socket) => socket.write(large(MIB)))
    const { status, body } = await forward('POST')
    t.equal(status, 200)
    t.ok(Buffer.isBuffer(body) && body.length === MIB)
    first.destroy()
  },
)

// Regression: the client got 504 and the text that the response took too long.
t.test('the problem that replaces a dropped response to a write says what is known', async (t) => {
  const { backend, forward } = await start(t)
  backend.setBehavior((socket) => socket.write(large(MIB / 2, MIB)))
  const first = streamOf(await forward('GET'))
  // Only a 422 that repeats the long names of unknown fields is this large.
  backend.setBehavior((socket) =>
    socket.write(large(MIB + 1).replace('200 OK', '422 Unprocessable Content')),
  )
  await rejectsWith(t, forward('POST'), {
    code: 'service_unavailable',
    message: 'Nothing was done. Try again in a second.',
  })
  backend.setBehavior((socket) => socket.write(large(MIB + 1)))
  await rejectsWith(t, forward('POST'), {
    code: 'bad_gateway',
    message: /^The response was lost\./,
  })
  first.destroy()
})

// Regression: a client with slow connections and large invalid bodies could have backends ejected.
t.test('a backend is not ejected because the gateway drops its responses', async (t) => {
  const { backend, peer, backends, forward } = await start(t, { usesBoth: true })
  for (const { setBehavior } of [backend, peer]) {
    setBehavior((socket) => socket.write(large(MIB / 2, MIB)))
  }
  const first = streamOf(await forward('GET'))
  const [streaming, other] = backend.calls.length === 1 ? [backend, peer] : [peer, backend]
  streaming.setBehavior((socket) => socket.write(RAW_OK))
  other.setBehavior((socket) => socket.write(large(MIB + 1)))
  let delivered = 0
  let dropped = 0
  const send = () =>
    forward('POST').then(
      () => delivered++,
      () => dropped++,
    )
  // The second of two simultaneous calls goes to the backend that already streams a response.
  for (let pairs = 0; pairs < 20; pairs++) await Promise.all([send(), send()])
  t.ok(delivered >= 10 && dropped >= 10, `delivered: ${delivered}, dropped: ${dropped}`)
  t.strictSame([...backends.ejections], [])
  first.destroy()
})

// Regression: one account that received its responses slowly could use all streams. No other account got a large
// response then.
t.test('an account may use half of the streams that other accounts do not use', async (t) => {
  const { backend, forward } = await start(t, { streamsMax: 8 })
  backend.setBehavior((socket) => socket.write(large(MIB / 2, MIB)))
  const streams: Readable[] = []
  const stream = async (accountId: string) => {
    streams.push(streamOf(await forward('GET', accountId)))
  }
  const isRejected = (accountId: string) =>
    rejectsWith(t, forward('GET', accountId), { code: 'service_unavailable' })
  for (const accountId of ['a', 'a', 'a', 'a']) await stream(accountId)
  await isRejected('a')
  for (const accountId of ['b', 'b', 'c', 'd']) await stream(accountId)
  await isRejected('e')
  for (const each of streams) each.destroy()
})

t.test('an account can use a stream again as soon as it is closed', async (t) => {
  const { backend, forward } = await start(t, { streamsMax: 2 })
  let connection: Socket | undefined
  const reasons: Record<string, (stream: Readable) => unknown> = {
    'the client has received the response': (stream) => {
      connection?.write('x'.repeat(MIB / 2))
      stream.resume()
    },
    'the client has closed its connection': (stream) => stream.destroy(),
    'the backend has broken off the response': () => connection?.resetAndDestroy(),
  }
  for (const [reason, close] of Object.entries(reasons)) {
    backend.setBehavior((socket) => {
      connection = socket
      socket.write(large(MIB / 2, MIB))
    })
    const stream = streamOf(await forward())
    const closed = new Promise((resolve) => stream.on('close', resolve))
    close(stream)
    await closed
    t.pass(reason)
  }
  const stream = streamOf(await forward())
  await rejectsWith(t, forward(), { code: 'service_unavailable' })
  stream.destroy()
})

t.test('the keys of one account share its streams', async (t) => {
  const backend = await startCapturingBackend(t)
  const settings = { BACKEND_CONNECTIONS: '4', LOG_LEVEL: 'fatal' }
  const gateway = await startGateway(t, backend.url, settings)
  const [key, otherKey] = [backend.issue(), backend.issue()]
  const keyOfOtherAccount = backend.issue(undefined, undefined, 'acct_00000000000000000000000001')
  backend.respondWith((_, res) => {
    // The response never ends, so its stream stays open.
    res.writeHead(200, { 'content-length': MIB })
    res.write(Buffer.alloc(MIB / 2, 'x'))
  })
  const get = async (secret: string) => {
    const headers = { authorization: `Bearer ${secret}` }
    const { statusCode, body } = await request(`${gateway.url}/api/v1/debtors`, { headers })
    // Without a listener, the error of the aborted body would end the process.
    body.on('error', () => {})
    t.teardown(() => body.destroy())
    return statusCode
  }
  t.equal(await get(key), 200)
  t.equal(await get(otherKey), 503)
  t.equal(await get(keyOfOtherAccount), 200)
})
