/**
 * A gateway listens on 16 sockets. With one socket, new connections starved under overload, because libuv accepts only
 * one connection per socket in each turn of the event loop.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { rejectsWith } from '../fixtures/matches.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { exchangeBytes, GATEWAY_SECRET, startGateway } from '../fixtures/service/gateway.ts'
import { startProcess } from '../fixtures/service/process.ts'

const backend = await startCapturingBackend(t)
const key = backend.issue()
const GET = `GET /api/v1/debtors HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`

/** Returns the number of sockets that listen on a port of this machine. */
function listeningSockets(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')} `
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n')
  return lines.filter((line) => line.includes(`${local}00000000:0000 0A `)).length
}

const onLinux = process.platform === 'linux' ? {} : { skip: 'requires /proc/net/tcp' }

t.test(
  'several sockets accept connections, on a free port and on a given port',
  onLinux,
  async (t) => {
    for (const port of [0, await reservePort()]) {
      const gateway = await startGateway(t, backend.url, { GATEWAY_PORT: String(port) })
      t.equal(listeningSockets(gateway.port), 16)
      const exchanges = Array.from({ length: 100 }, () => exchangeBytes(gateway.port, GET))
      const texts = (await Promise.all(exchanges)).map(({ text }) => text.split('\r\n', 1)[0])
      t.strictSame([...new Set(texts)], ['HTTP/1.1 200 OK'], 'each call is served')
      t.equal(await gateway.stop(), 0)
      t.equal(listeningSockets(gateway.port), 0)
    }
  },
)

t.test('a gateway does not start on a port on which another gateway listens', async (t) => {
  const gateway = await startGateway(t, backend.url)
  const second = startGateway(t, backend.url, { GATEWAY_PORT: String(gateway.port) })
  await rejectsWith(t, second, { message: /EADDRINUSE/ })
})

// The other tests of this tier start `gateway/gateway.ts`, which has no flags.
t.test(
  'the program restarts itself with its V8 flags within the same process',
  onLinux,
  async (t) => {
    const gateway = await startProcess(t, 'gateway/main.ts', {
      GATEWAY_SECRET,
      GATEWAY_PORT: '0',
      GATEWAY_OPERATIONS_PORT: '0',
      BACKEND_URLS: backend.url,
    })
    const [, ...words] = readFileSync(`/proc/${gateway.pid}/cmdline`, 'utf8').split('\0')
    t.strictSame(words, [
      '--max-semi-space-size=16',
      '--heap-growing-percent=15',
      '--single-threaded-gc',
      '--expose-gc',
      join(process.cwd(), 'gateway/main.ts'),
      '',
    ])
    t.equal(await gateway.stop(), 0)
  },
)
