/**
 * Clients send half a body and then stall. Regression: they used up the memory for bodies, so that every write with
 * any key got 503.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { untilClosed } from '../fixtures/servers/until-closed.ts'
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
t.teardown(closeAll)

/** Sends half of many bodies. Resolves when the gateway has received them, or has rejected their calls. */
async function stall(addresses: number, secretOf: () => string): Promise<void> {
  const half = Buffer.alloc(BODY_BYTES / 2, ' ')
  await Promise.all(
    Array.from({ length: STALLED }, async (_, index) => {
      const localAddress = `127.0.0.${1 + (index % addresses)}`
      const socket = connect({ port: gateway.port, host: '127.0.0.1', localAddress })
      sockets.push(socket)
      socket.on('error', () => {}).resume()
      await once(socket, 'connect')
      const head = `POST /api/v1/debtors HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer ${secretOf()}\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`
      socket.write(head)
      const written = new Promise((resolve) => socket.write(half, resolve))
      await Promise.race([written, untilClosed(socket)])
    }),
  )
}

async function bodyBytes(key: 'known' | 'unknown', { operationsPort } = gateway): Promise<number> {
  const { text } = await call(`http://127.0.0.1:${operationsPort}/metrics`)
  const line = new RegExp(
    `^receivables_gateway_client_memory_bytes\\{.*key="${key}".*\\} (\\S+)`,
    'm',
  )
  return Number(line.exec(text)?.[1])
}

function closeAll(): void {
  for (const socket of sockets.splice(0)) socket.destroy()
}

/** Makes two writes each time, a small one and one of nearly the maximum size. Resolves with their statuses. */
async function write(key: string, times: number): Promise<number[]> {
  const statuses: number[] = []
  for (let n = 0; n < times; n++) {
    for (const body of [{ n }, { text: 'x'.repeat(BODY_BYTES - 100) }]) {
      statuses.push((await call(url, { key, body })).status)
    }
  }
  return statuses
}

const issueCachedKey = () => {
  const key = backend.issue(undefined, 1_000_000)
  return { key, firstCall: call(url, { key }) }
}

const { key, firstCall } = issueCachedKey()
t.equal((await firstCall).status, 200)
const OK = Array.from({ length: 24 }, () => 200)

// From one address, a client can use at most half of each partition of the memory.
for (const [addresses, share] of [
  [1, 1 / 2],
  [30, 1],
] as const) {
  const from = addresses === 1 ? 'the same address' : `${addresses} addresses`

  t.test(
    `writes with a cached key succeed despite stalled bodies with made-up keys from ${from}`,
    async (t) => {
      await stall(addresses, () => mintApiKey().secret)
      const threshold = 9 * MIB * share
      await until(
        async () => (await bodyBytes('unknown')) > threshold,
        'most of the memory of unknown keys is used',
      )
      t.strictSame(await write(key, 12), OK)
    },
  )

  t.test('writes with a new key succeed too, because stalled bodies are evicted', async (t) => {
    const newKey = backend.issue(undefined, 1_000_000)
    t.strictSame(await write(newKey, 12), OK)
    closeAll()
  })

  t.test(
    `writes with a cached key succeed despite stalled bodies with another cached key from ${from}`,
    async (t) => {
      const other = issueCachedKey()
      t.equal((await other.firstCall).status, 200)
      await stall(addresses, () => other.key)
      const threshold = 24 * MIB * share
      await until(
        async () => (await bodyBytes('known')) > threshold,
        'most of the memory of known keys is used',
      )
      t.strictSame(await write(key, 12), OK)
      closeAll()
    },
  )
}

// Regression: if a client's only body was evicted for its next one, later bytes were not counted for that
// client.
t.test(
  'behind a proxy, the limit of a client still applies after its bodies were evicted',
  async (t) => {
    const proxied = await startGateway(t, backend.url, {
      TRUST_PROXY: '1',
      GATEWAY_MEMORY_PER_CLIENT_MIB: '1',
      LOG_LEVEL: 'fatal',
    })
    // A quarter of the memory is for keys that are not cached.
    const limit = MIB / 4
    const sent = Buffer.alloc(limit - 8 * 1024, ' ')
    for (let bodies = 1; bodies <= 4; bodies++) {
      const socket = connect({ port: proxied.port, host: '127.0.0.1' })
      sockets.push(socket)
      socket.on('error', () => {}).resume()
      socket.write(
        `POST /api/v1/debtors HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer ${mintApiKey().secret}\r\nX-Forwarded-For: 203.0.113.9\r\nContent-Length: ${limit}\r\n\r\n`,
      )
      socket.write(sent)
      let used = 0
      await until(async () => {
        used = await bodyBytes('unknown', proxied)
        const isAlone = sockets.every((other) => other === socket || other.closed)
        return used > limit || (isAlone && used >= sent.length)
      }, 'the body has arrived')
      t.ok(used <= limit, `${used} bytes after ${bodies} bodies`)
    }
    closeAll()
  },
)

t.test('no memory is in use after the clients have disconnected', async () => {
  const isFree = async () => (await bodyBytes('known')) === 0 && (await bodyBytes('unknown')) === 0
  await until(isFree, 'every body is released')
})
