/**
 * The gateway chooses backends for pages as it does for calls, and with the same deadline for connecting. It uses a
 * limited number of connections for pages.
 */
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { startBlackHole } from '../fixtures/servers/black-hole.ts'
import { call } from '../fixtures/service/call.ts'
import { exchangeBytes, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { RAW_OK, startRawBackend } from './fixtures/raw-backend.ts'

const key = mintApiKey().secret
/** The response of a backend to a request without a valid signature. */
const BARE_404 = 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n'
/** The number of connections for pages: a quarter of the default of BACKEND_CONNECTIONS. */
const CONNECTIONS_FOR_PAGES = 16
/** The number of pages that are loaded at the same time if all are requested by one client. */
const CONNECTIONS_OF_CLIENT = CONNECTIONS_FOR_PAGES / 2

async function start(t: Test, urls: readonly string[], env: Record<string, string> = {}) {
  const gateway = await startGateway(t, urls.join(), { LOG_LEVEL: 'fatal', ...env })
  const page = async (init: RequestInit = {}) => {
    const signal = AbortSignal.timeout(20_000)
    const { status, headers } = await fetch(`${gateway.url}/docs`, { signal, ...init })
    return { status, retryAfter: headers.get('retry-after') }
  }
  const untilWaiting = (pages: number) =>
    until(async () => {
      const { text } = await call(`http://127.0.0.1:${gateway.operationsPort}/metrics`)
      return text.includes(`receivables_gateway_pages_waiting ${pages}\n`)
    }, `${pages} pages wait`)
  return { ...gateway, page, untilWaiting }
}

const backend = await startRawBackend(t)
const { page, url, port, untilWaiting } = await start(t, [backend.url])

// Regression: each page opened a new connection.
t.test('pages that are requested one after another share a connection', async (t) => {
  const sockets = new Set<Socket>()
  backend.setBehavior((socket) => {
    sockets.add(socket)
    socket.write(RAW_OK)
  })
  for (let round = 0; round < 20; round++) t.equal((await page()).status, 200)
  t.equal(sockets.size, 1)
})

t.test('a page is requested again over another connection if an idle one was closed', async (t) => {
  const firstIndex = backend.calls.length
  backend.setBehavior((socket, index) =>
    index === firstIndex ? socket.destroy() : socket.write(RAW_OK),
  )
  t.equal((await page()).status, 200)
  t.equal(backend.calls.length, firstIndex + 2)
})

t.test(
  'of 60 pages that one client requests, most wait in a queue; calls do not wait for them',
  async (t) => {
    const pending: Socket[] = []
    const sockets = new Set<Socket>()
    let isPaused = true
    backend.setBehavior((socket, _, request) => {
      if (!request.startsWith('GET /docs')) return void socket.write(RAW_OK)
      sockets.add(socket)
      if (isPaused) pending.push(socket)
      else socket.write(RAW_OK)
    })
    const pages = Array.from({ length: 60 }, () => page())
    await untilWaiting(60 - CONNECTIONS_OF_CLIENT)
    // A page that no longer waits may still be on its way to the backend.
    await until(() => pending.length >= CONNECTIONS_OF_CLIENT, 'the other pages are at the backend')
    t.equal(pending.length, CONNECTIONS_OF_CLIENT)
    t.equal((await call(`${url}/api/v1/debtors`, { key })).status, 200)
    isPaused = false
    for (const socket of pending) socket.write(RAW_OK)
    for (const { status } of await Promise.all(pages)) t.equal(status, 200)
    t.equal(sockets.size, CONNECTIONS_OF_CLIENT)
  },
)

t.test('if pages are loaded one at a time, other pages wait in a queue', async (t) => {
  const slow = await startRawBackend(t)
  const limited = await start(t, [slow.url], {
    ...{ BACKEND_CONNECTIONS: '4', GATEWAY_UPSTREAM_TIMEOUT_MS: '7000' },
  })

  await t.test('a client that disconnects while its page is queued leaves the queue', async (t) => {
    const pending: Socket[] = []
    slow.setBehavior((socket) => void pending.push(socket))
    const first = limited.page()
    await until(() => pending.length === 1, 'the backend has received a page request')
    const controller = new AbortController()
    const aborted = limited.page({ signal: controller.signal }).catch(() => 'aborted')
    await limited.untilWaiting(1)
    controller.abort()
    await limited.untilWaiting(0)
    t.equal(await aborted, 'aborted')
    pending[0]?.write(RAW_OK)
    t.equal((await first).status, 200)
    t.equal(slow.calls.length, 1, 'the page of that client was not requested')
  })

  await t.test(
    'a page that takes too long gets 504, and a page that waits too long in the queue gets 503',
    async (t) => {
      slow.setBehavior(() => {})
      const results = await Promise.all([limited.page(), limited.page()])
      t.strictSame(results.map(({ status, retryAfter }) => [status, retryAfter]).sort(), [
        [503, '1'],
        [504, null],
      ])
    },
  )
})

// Regression: pages had no deadline for connecting.
t.test(
  'if no connection to a backend can be opened, pages get 503 or use another backend',
  async (t) => {
    const blackHole = `http://127.0.0.1:${await startBlackHole(t)}`
    const good = await startRawBackend(t)
    const env = { GATEWAY_UPSTREAM_TIMEOUT_MS: '60000' }
    const alone = await start(t, [blackHole], env)
    t.strictSame(await alone.page(), { status: 503, retryAfter: '1' })
    const both = await start(t, [blackHole, good.url], env)
    for (let round = 0; round < 10; round++) t.equal((await both.page()).status, 200)
  },
)

// Regression: browsers got the 404 of the backend, as if the page did not exist.
t.test('a backend that rejects the signature of the gateway causes a 503', async (t) => {
  const rejecting = await startRawBackend(t)
  rejecting.setBehavior((socket) => socket.write(BARE_404))
  const alone = await start(t, [rejecting.url])
  t.strictSame(await alone.page(), { status: 503, retryAfter: '1' })
  const form = await fetch(`${alone.url}/settings/login`, { method: 'POST', body: 'a=b' })
  t.equal(form.status, 503)

  const other = await startRawBackend(t)
  const both = await start(t, [rejecting.url, other.url])
  for (let round = 0; round < 6; round++) t.equal((await both.page()).status, 200)
})

// Regression: the values were joined with a comma. A person whose proxy sent several Cookie headers was not logged in.
t.test('the backend receives the cookies of all Cookie headers', async (t) => {
  let cookies: string | undefined
  backend.setBehavior((socket, _, request) => {
    cookies = /^cookie: (.*)\r$/m.exec(request)?.[1]
    socket.write(RAW_OK)
  })
  const lines = ['Host: a', 'Cookie: theme=dark', 'Cookie: session=1', 'Connection: close']
  await exchangeBytes(port, `GET /settings HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
  t.equal(cookies, 'theme=dark; session=1')
})

t.test('a page larger than the buffer arrives completely, or its connection breaks', async (t) => {
  const size = 3 * 1024 * 1024
  const head = `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${size}\r\n\r\n`
  const firstIndex = backend.calls.length
  backend.setBehavior((socket, index) => {
    if (index === firstIndex) socket.write(head + 'x'.repeat(size))
    else socket.end(head + 'x'.repeat(size - 1))
  })
  const whole = await fetch(`${url}/docs`)
  t.equal(whole.headers.get('content-length'), String(size))
  t.equal((await whole.text()).length, size)
  const broken = await fetch(`${url}/docs`)
  await t.rejects(broken.text())
})
