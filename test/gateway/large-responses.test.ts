/** Answers that are passed on as they come, and connections to a backend that serve others after them. */

import { once } from 'node:events'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { Abort } from '../../gateway/call/abort.ts'
import { watchBackendAddresses } from '../../gateway/upstream/addresses.ts'
import type { UpstreamRequest, UpstreamResponse } from '../../gateway/upstream/attempt.ts'
import { BackendSet } from '../../gateway/upstream/backend-set.ts'
import { createForwarder } from '../../gateway/upstream/forward.ts'
import { createLogger } from '../../shared/process/log.ts'
import { matches, rejectsWith } from '../fixtures/matches.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

const TIMEOUT_MS = 500
const MEGABYTE = 1024 * 1024

/** A backend, and what forwards to it; one large answer at once. */
async function start(t: Test) {
  const backend = await startRawBackend(t)
  const log = createLogger('gateway', 'silent')
  const addresses = watchBackendAddresses({ urls: [backend.url], log })
  const limits = { timeoutMs: TIMEOUT_MS, waitMs: 250, connections: 2, streamsMax: 1 }
  const backends = new BackendSet({ addresses, gatewaySecrets: [GATEWAY_SECRET], log, ...limits })
  t.teardown(async () => {
    addresses.close()
    backends.close()
  })
  const forwarder = createForwarder({ backends, log, ...limits })
  const flow = forwarder.admit('key_1')
  flow.leave()
  const forward = (method = 'GET') =>
    forwarder.forward({ ...request(method), flow }, new Abort(), {
      backend: undefined,
      upstreamMs: 0,
    })
  return { backend, forward }
}

function request(method: string): Omit<UpstreamRequest, 'flow'> {
  return {
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
  if (!(body instanceof Readable)) throw new Error('the answer came whole')
  return body
}

// It ended the connection, which served another call by then: a write was lost for it.
t.test('an answer that is given up when all of it is here ends no call of others', async (t) => {
  const { backend, forward } = await start(t)
  backend.behave((socket) => socket.write(large(MEGABYTE / 2)))
  const given = streamOf(await forward())
  const waiting: Socket[] = []
  backend.behave((socket) => waiting.push(socket))
  const other = forward('POST')
  await until(() => waiting.length === 1, 'the backend has the other call')
  given.destroy()
  await once(given, 'close')
  waiting[0]?.write(RAW_OK)
  matches(t, await other, { status: 200 })
  t.equal(backend.calls.length, 2, 'each sent once')
})

// A connection that was held for a slow client had no deadline any more.
t.test('a backend that stalls behind a slow client is given up in time', async (t) => {
  const { backend, forward } = await start(t)
  // As much as is kept for a slow client: then the connection is held, and nothing more comes.
  backend.behave((socket) => socket.write(large(MEGABYTE, 2 * MEGABYTE)))
  const stalled = streamOf(await forward())
  await until(() => stalled.readableLength === MEGABYTE, 'the connection is held')
  await t.rejects(stalled.resume().toArray())
})

t.test('a write whose answer is one too many is not said to have done nothing', async (t) => {
  const { backend, forward } = await start(t)
  backend.behave((socket) => socket.write(large(MEGABYTE / 2, MEGABYTE)))
  const first = streamOf(await forward())
  await rejectsWith(t, forward('GET'), { code: 'service_unavailable' })
  await rejectsWith(t, forward('POST'), { code: 'gateway_timeout' })
  first.destroy()
})
