/**
 * Clients that send half a body and wait once used up the memory of all bodies, so that every write of every key was
 * 503.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const STALLED = 300
const BODY_BYTES = 256 * 1024
const MIB = 1024 * 1024

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal' })
const url = `${gateway.url}/api/v1/debtors`
const sockets: Socket[] = []
t.teardown(() => {
  for (const socket of sockets) socket.destroy()
})

/** Resolves when the half of each body is with the gateway, or its call was refused. */
async function stall(secretOf: () => string): Promise<void> {
  const half = Buffer.alloc(BODY_BYTES / 2, ' ')
  await Promise.all(
    Array.from({ length: STALLED }, async () => {
      const socket = connect(gateway.port, '127.0.0.1')
      sockets.push(socket)
      socket.on('error', () => {}).resume()
      await once(socket, 'connect')
      const head = `POST /api/v1/debtors HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer ${secretOf()}\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`
      socket.write(head)
      const written = new Promise((resolve) => socket.write(half, resolve))
      await Promise.race([written, once(socket, 'close')])
    }),
  )
}

async function bodyBytes(): Promise<number> {
  const { text } = await call(`http://127.0.0.1:${gateway.operationsPort}/metrics`)
  return Number(/^receivables_gateway_body_bytes(?:\{.*\})? (\S+)/m.exec(text)?.[1])
}

/** Statuses of writes, one after the other: a small one, and one that is nearly as large as it may be. */
async function write(key: string, times: number): Promise<number[]> {
  const statuses: number[] = []
  for (let n = 0; n < times; n++) {
    for (const body of [{ n }, { text: 'x'.repeat(BODY_BYTES - 100) }]) {
      statuses.push((await call(url, { key, body })).status)
    }
  }
  return statuses
}

const cachedKey = () => {
  const key = backend.issue(undefined, 1_000_000)
  return { key, cached: call(url, { key }) }
}

const { key, cached } = cachedKey()
t.equal((await cached).status, 200)
const OK = Array.from({ length: 24 }, () => 200)

t.test('bodies of made-up keys take nothing from a key in use', async (t) => {
  await stall(() => mintApiKey().secret)
  await until(async () => (await bodyBytes()) > 10 * MIB, 'their memory is used up')
  t.strictSame(await write(key, 12), OK)
})

t.test('a new key is served among them: who stalls gives way', async (t) => {
  const newKey = backend.issue(undefined, 1_000_000)
  await until(
    async () => (await call(url, { key: newKey, body: {} })).status === 200,
    'the first call of the new key is served',
  )
  t.strictSame(await write(newKey, 12), OK)
})

t.test('bodies of a key in use take nothing from another', async (t) => {
  const other = cachedKey()
  t.equal((await other.cached).status, 200)
  await stall(() => other.key)
  await until(async () => (await bodyBytes()) > 40 * MIB, 'the memory is used up')
  const statuses = await until(async () => {
    const found = await write(key, 12)
    return found.every((status) => status === 200) && found
  }, 'the bodies that stall give way')
  t.strictSame(statuses, OK)
})

t.test('no memory is left when they are gone', async () => {
  for (const socket of sockets) socket.destroy()
  await until(async () => (await bodyBytes()) === 0, 'every body is released')
})
