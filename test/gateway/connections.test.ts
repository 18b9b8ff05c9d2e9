import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { exchangeBytes, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url)
const key = backend.issue(undefined, 100_000)

const HEADERS = `Host: api.test\r\nAuthorization: Bearer ${key}\r\n`
const get = (target: string, headers = '') => `GET ${target} HTTP/1.1\r\n${HEADERS}${headers}\r\n`
const MIB = 1024 * 1024
const H2C = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n'

async function open(t: Test, port = gateway.port): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  t.teardown(() => socket.destroy())
  let text = ''
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
  })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return { socket, text: () => text }
}

const statuses = (text: string) => text.match(/(?<=HTTP\/1\.1 )\d+/g) ?? []

t.test('after an ignored h2c upgrade the connection serves the next call', async (t) => {
  const { socket, text } = await open(t)
  socket.write(get('/api/v1/debtors?1', H2C))
  await until(() => text().includes('"list"'), 'the first response has arrived')
  socket.write(get('/api/v1/debtors?2', 'Connection: close\r\n'))
  await once(socket, 'end')
  t.strictSame(statuses(text()), ['200', '200'])
})

// Some parsers drop the bytes that follow an upgrade in the same packet. If the next request begins in this packet, it
// is then parsed from its middle.
t.test(
  'a request that begins in the packet of an ignored h2c upgrade is parsed from its beginning',
  async (t) => {
    const requestsBefore = backend.requests.length
    const { socket, text } = await open(t)
    const smuggled = get('/api/v1/debtors?smuggled', 'Connection: close\r\n')
    const length = `Content-Length: ${smuggled.length}\r\nConnection: close\r\n`
    socket.write(
      `${get('/api/v1/debtors?1', H2C)}POST /api/v1/debtors HTTP/1.1\r\n${HEADERS}${length}`,
    )
    socket.write(`\r\n${smuggled}`)
    await once(socket, 'end')
    t.strictSame(statuses(text()), ['200', '200'])
    t.strictSame(
      backend.requests.slice(requestsBefore).map(({ method, url, body }) => [method, url, body]),
      [
        ['GET', '/api/v1/debtors?1', ''],
        ['POST', '/api/v1/debtors', smuggled],
      ],
    )
  },
)

// Regression: an error of the socket, which Node detaches from its parser after CONNECT, ended the
// process.
t.test('a CONNECT that is reset ends only its own connection', async (t) => {
  for (let round = 0; round < 20; round++) {
    const { socket } = await open(t)
    socket.write(`CONNECT api.test:443 HTTP/1.1\r\n${HEADERS}\r\n`)
    await once(socket, 'data')
    socket.write('x'.repeat(10_000))
    socket.resetAndDestroy()
    await once(socket, 'close')
  }
  t.equal((await call(`${gateway.url}/api/v1/debtors`, { key })).status, 200)
})

t.test('a client that continues to send after a rejection can still read it', async (t) => {
  const body = 'x'.repeat(1_000_000)
  const head = `POST /api/v1/debtors HTTP/1.1\r\n${HEADERS}Content-Length: 2000000\r\n\r\n`
  const { text } = await exchangeBytes(gateway.port, head + body)
  matches(t, text, /^HTTP\/1\.1 413 /)
})

t.test(
  'the call of a client that disconnected is aborted; a client that half-closed gets its response',
  async (t) => {
    const finish: (() => void)[] = []
    const aborted: string[] = []
    backend.respondWith((req, res) => {
      res.on('close', () => {
        if (!res.writableEnded) aborted.push(req.url)
      })
      finish.push(() => res.end('{}'))
    })
    // On a busy machine, the response may come too late for a client that has half-closed its connection.
    await until(async () => {
      const half = await open(t)
      const closed = untilClosed(half.socket)
      half.socket.end(get('/api/v1/debtors?half'))
      await until(() => finish.length === 1 || half.socket.closed, 'the backend has the call')
      finish.shift()?.()
      await closed
      return statuses(half.text())[0] === '200'
    }, 'the client gets its response')

    const reset = await open(t)
    reset.socket.write(get('/api/v1/debtors?reset'))
    await until(() => finish.length === 1, 'the backend has the call')
    reset.socket.resetAndDestroy()
    await until(() => aborted.includes('/api/v1/debtors?reset'), 'the call is aborted')

    const closed = await open(t)
    closed.socket.write(get('/api/v1/debtors?closed'))
    await until(() => finish.length === 2, 'the backend has the call')
    closed.socket.destroy()
    await until(() => aborted.includes('/api/v1/debtors?closed'), 'the call is aborted')
  },
)

t.test('requests that a client pipelined before it disconnected are not carried out', async (t) => {
  let aborted = 0
  backend.respondWith((_, res) => void res.on('close', () => aborted++))
  const { socket } = await open(t)
  const requestsBefore = backend.requests.length
  socket.write(get('/api/v1/debtors?first') + get('/api/v1/debtors?second'))
  await until(() => backend.requests.length > requestsBefore, 'the backend has the first call')
  socket.resetAndDestroy()
  await until(() => aborted > 0, 'the first call is aborted')
  backend.respondWith((_, res) => res.end('{}'))
  t.equal((await call(`${gateway.url}/api/v1/debtors`, { key })).status, 200)
  t.strictSame(
    backend.requests.slice(requestsBefore).map(({ url }) => url),
    ['/api/v1/debtors?first', '/api/v1/debtors'],
  )
})

// Regression: requests that had been read ahead were processed although the client had disconnected.
t.test(
  'requests that were pipelined before a response broke off are not carried out',
  async (t) => {
    // These calls open connections to the backend, so that a free one is available for the next call.
    await Promise.all([1, 2, 3].map(() => call(`${gateway.url}/api/v1/debtors`, { key })))
    const requestsBefore = backend.requests.length
    backend.respondWith((_, res) => {
      res.writeHead(200, { 'content-length': 1_000_000 })
      res.write(Buffer.alloc(500_000, 'x'), () => res.destroy())
    })
    const { socket } = await open(t)
    socket.write(get('/api/v1/debtors?broken') + get('/api/v1/debtors?after'))
    await untilClosed(socket)
    backend.respondWith((_, res) => res.end('{}'))
    t.equal((await call(`${gateway.url}/api/v1/debtors`, { key })).status, 200)
    t.strictSame(
      backend.requests.slice(requestsBefore).map(({ url }) => url),
      ['/api/v1/debtors?broken', '/api/v1/debtors'],
    )
  },
)

// Regression: an incomplete response to a request of HTTP/1.0 ended with its connection, and looked complete.
t.test('an incomplete response ends with an error in HTTP/1.0 and in HTTP/1.1', async (t) => {
  backend.respondWith((_, res) => void res.write(Buffer.alloc(500_000, 'x'), () => res.destroy()))
  for (const version of ['HTTP/1.0', 'HTTP/1.1']) {
    const { socket } = await open(t)
    socket.write(get('/api/v1/debtors').replace('HTTP/1.1', version))
    t.equal(await untilClosed(socket), 'with an error', version)
  }
})

// Regression: such a client was disconnected one second after it had closed its half.
t.test(
  'a client that has half-closed its connection may read its response as slowly as other clients',
  async (t) => {
    backend.respondWith((_, res) => res.end(Buffer.alloc(24 * MIB)))
    const socket = connect(gateway.port, '127.0.0.1')
    socket.write(get('/api/v1/debtors', 'Connection: close\r\n'))
    let bytes = 0
    for await (const part of socket.iterator()) {
      // On a busy machine, the response might begin too late if the client half-closed its connection earlier.
      if (bytes === 0) socket.end()
      bytes += part.length
      // The client takes at least 80 ms to read each MiB.
      if (bytes % MIB < part.length) await delay(80)
    }
    t.ok(bytes > 24 * MIB)
  },
)

// Regression: such a client was disconnected one second after it had closed its half, unless it read so slowly that
// the gateway had to buffer a part of the response.
t.test(
  'a client that has half-closed its connection gets its response even if the backend sends it slowly',
  async (t) => {
    const half = Buffer.alloc(500_000, 'x')
    let sendRest = () => {}
    backend.respondWith((_, res) => {
      res.writeHead(200, { 'content-length': 2 * half.length })
      res.write(half)
      sendRest = () => res.end(half)
    })
    const slow = await open(t)
    slow.socket.write(get('/api/v1/debtors?slow'))
    await until(() => slow.text().length > half.length, 'the first half has arrived')
    slow.socket.end()
    backend.respondWith(() => {})
    // The gateway disconnects this client, which half-closes its connection later and gets no response.
    const other = await open(t)
    other.socket.end(get('/api/v1/debtors?other'))
    await untilClosed(other.socket)
    sendRest()
    await untilClosed(slow.socket)
    t.ok(slow.text().length > 2 * half.length)
  },
)

function untilClosed(socket: Socket): Promise<'with an error' | 'normally'> {
  return new Promise((resolve) => {
    socket.on('close', (hadError) => resolve(hadError ? 'with an error' : 'normally'))
  })
}

/** Makes five requests on other connections, so that the gateway has time to read the bytes written before. */
async function untilRead(): Promise<void> {
  for (let round = 0; round < 5; round++) await fetch(gateway.url, { redirect: 'manual' })
}

// Regression: if reading had paused because of bytes that were read ahead, it did not resume for a body.
t.test('a large body that is sent during another call arrives complete', async (t) => {
  const finish: (() => void)[] = []
  backend.respondWith((_, res) => void finish.push(() => res.end('{}')))
  const requestsBefore = backend.requests.length
  const { socket, text } = await open(t)
  const body = 'x'.repeat(250_000)
  socket.write(get('/api/v1/debtors?slow'))
  await until(() => finish.length === 1, 'the backend has the call')
  socket.write(
    `POST /api/v1/debtors HTTP/1.1\r\n${HEADERS}Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  await untilRead()
  finish[0]?.()
  await until(() => finish.length === 2, 'the backend has the next call')
  finish[1]?.()
  await once(socket, 'end')
  t.strictSame(statuses(text()), ['200', '200'])
  t.equal(backend.requests[requestsBefore + 1]?.body, body)
})

t.test('an incomplete body is rejected even if another call came before it', async (t) => {
  backend.respondWith((_, res) => res.end('{}'))
  const half = `POST /api/v1/debtors HTTP/1.1\r\n${HEADERS}Content-Length: 10\r\n\r\n{}`
  const { socket, text } = await open(t)
  socket.write(get('/api/v1/debtors') + half)
  await until(() => statuses(text()).length === 1, 'the first response has arrived')
  socket.end()
  await once(socket, 'end')
  t.strictSame(statuses(text()), ['200', '400'])
})

// Regression: the system reset the connections that the gateway had not accepted.
t.test('a gateway that drains serves the connections that wait to be accepted', async (t) => {
  const draining = await startGateway(t, backend.url)
  process.kill(draining.pid, 'SIGSTOP')
  const waiting = await Promise.all(Array.from({ length: 64 }, () => open(t, draining.port)))
  const closed = waiting.map(({ socket }) => once(socket, 'close'))
  for (const { socket } of waiting) socket.write(get('/api/v1/debtors', 'Connection: close\r\n'))
  const ended = draining.stop()
  process.kill(draining.pid, 'SIGCONT')
  await Promise.all(closed)
  const served = waiting.filter(({ text }) => statuses(text())[0] === '200')
  t.equal(served.length, waiting.length)
  t.equal(await ended, 0)
})

// Regression: the drain failed because of one such client, so that the last usage reports were lost.
t.test('a gateway drains although a client has begun a request and sends no more', async (t) => {
  const draining = await startGateway(t, backend.url)
  const { text } = await open(t, draining.port)
  const { socket } = await open(t, draining.port)
  socket.write('GET / HT')
  await until(
    async () => (await fetch(draining.url, { redirect: 'manual' })).status === 302,
    'the gateway has read the bytes',
  )
  t.equal(await draining.stop(), 0)
  t.equal(text(), '', 'an idle connection is closed without a response')
})

// Regression: the drain failed because of one such client.
t.test('a gateway drains although clients keep sending', async (t) => {
  const draining = await startGateway(t, backend.url)
  const slow = await open(t, draining.port)
  slow.socket.write(get('/api/v1/debtors'))
  await until(() => statuses(slow.text()).length === 1, 'the first response has arrived')
  const pipelining = await open(t, draining.port)
  pipelining.socket.on('data', (chunk: Buffer) => {
    const responses = statuses(chunk.toString('latin1')).length
    pipelining.socket.write(get('/api/v1/debtors').repeat(responses))
  })
  pipelining.socket.write(get('/api/v1/debtors').repeat(5))
  const ended = draining.stop()
  await until(() => draining.log().includes('"draining"'), 'the gateway drains')
  slow.socket.write('GET /')
  const timer = setInterval(() => slow.socket.write('x'), 50)
  t.teardown(() => clearInterval(timer))
  t.equal(await ended, 0)
  t.strictSame(statuses(slow.text()), ['200', '408'])
})

t.test(
  'an unexpected error in the gateway closes the connection on which it occurs, and no other',
  async (t) => {
    const defect = `ArrayBuffer.prototype.transfer = () => { throw new Error('a defect') }`
    const broken = await startGateway(t, backend.url, {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(defect)}`,
    })
    const other = await open(t, broken.port)
    // The gateway releases the memory of a large rejected packet immediately, which throws the error. If the kernel
    // delivers the bytes in small packets, no error is thrown: the gateway rejects them and closes the connection.
    await until(async () => {
      const { closed } = await exchangeBytes(broken.port, `\0${'x'.repeat(40_000)}`)
      t.ok(closed)
      return broken.log().includes('an unexpected error closed the connection')
    }, 'the error occurs on a connection')
    other.socket.write(get('/api/v1/debtors', 'Connection: close\r\n'))
    await once(other.socket, 'end')
    t.strictSame(statuses(other.text()), ['200'])
    matches(
      t,
      broken.log(),
      /"level":"error".*a defect.*"an unexpected error closed the connection of a client"/,
    )
  },
)
