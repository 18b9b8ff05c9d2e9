import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { openWebhooks } from '../fixtures/accounts/webhooks.ts'
import { matches } from '../fixtures/matches.ts'
import { createCertificate } from '../fixtures/servers/certificate.ts'
import { startDns } from '../fixtures/servers/dns.ts'
import { listen } from '../fixtures/servers/listen.ts'
import { startReceiver, verify } from '../fixtures/servers/receiver.ts'
import { until } from '../fixtures/service/until.ts'

const ATTEMPT_MS_MAX = 400

t.test('the result of an attempt names the fault of a bad receiver', async (t) => {
  const redirected = await startReceiver(t)
  const drip = (res: ServerResponse) => {
    const dripping = setInterval(() => res.write('.'), 20)
    res.on('close', () => clearInterval(dripping))
  }
  const cases: [name: string, url: Promise<string>, expected: object][] = [
    ['500', http(t, (res) => void res.writeHead(500).end('sorry')), { status_code: 500 }],
    ['404', http(t, (res) => void res.writeHead(404).end()), { status_code: 404 }],
    [
      '302',
      http(t, (res) => void res.writeHead(302, { location: redirected.url }).end()),
      { status_code: 302, error: null },
    ],
    ['hangs', http(t, () => {}), { status_code: null, error: 'timeout' }],
    ['sends nothing', raw(t, () => {}), { status_code: null, error: 'timeout' }],
    [
      'sends its body byte by byte',
      http(t, (res) => drip(res.writeHead(200))),
      { error: 'timeout' },
    ],
    [
      'sends its head byte by byte',
      raw(t, (socket) => {
        socket.write('HTTP/1.1 200 OK\r\nx: ')
        const dripping = setInterval(() => socket.write('.'), 20)
        socket.on('close', () => clearInterval(dripping))
      }),
      { status_code: null, error: 'timeout' },
    ],
    ['resets', raw(t, (socket) => socket.resetAndDestroy()), { error: 'connection_reset' }],
    ['closes', raw(t, (socket) => void socket.end()), { error: 'connection_reset' }],
    [
      'stops in the middle',
      raw(t, (socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf')),
      { status_code: 200, error: /connection_reset|invalid_response/ },
    ],
    [
      'speaks no HTTP',
      raw(t, (socket) => void socket.end('hello\r\n\r\n')),
      { error: 'invalid_response' },
    ],
    [
      'has a head without end',
      raw(t, (socket) => void socket.write(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(100_000)}`)),
      { error: 'invalid_response' },
    ],
    ['refuses connections', refusing(), { status_code: null, error: 'connection_refused' }],
  ]
  const webhooks = await openWebhooks(t, { attemptMsMax: ATTEMPT_MS_MAX })
  const endpoints = new Map<string, object>()
  // An account may have ten endpoints. The other receivers are tested without an endpoint.
  for (const [name, url, expected] of cases.slice(0, 10)) {
    const { row } = await webhooks.createEndpoint(await url)
    endpoints.set(row.id, { name, ...expected })
  }
  const { testAccount } = webhooks
  webhooks.startWorker()
  await testAccount.createDebtor()
  await webhooks.untilAll(({ attempts }) => attempts === 1, 'each delivery was attempted once')
  for (const attempt of await webhooks.attempts()) {
    const { name, ...expected } = Object(endpoints.get(attempt.endpoint_id))
    matches(t, attempt, { succeeded: 0, ...expected }, name)
  }
  t.equal((await webhooks.attempts()).length, 10)
  for (const [name, url, expected] of cases.slice(10)) {
    const { error } = Object(expected)
    const request = { url: await url, headers: {}, body: Buffer.from('{}') }
    matches(t, await webhooks.sender.send(request), { succeeded: false, error }, name)
  }
  t.equal(redirected.connections(), 0)
})

t.test(
  'of a response of ten gigabytes, only the beginning is read, and 1 KiB is stored',
  async (t) => {
    let sent = 0
    const chunk = Buffer.alloc(65_536, 'a')
    const url = await http(t, (res) => {
      res.writeHead(200, { 'content-length': 10_000_000_000 })
      const pump = () => {
        while (!res.destroyed && sent < 10_000_000_000) {
          sent += chunk.length
          if (!res.write(chunk)) return void res.once('drain', pump)
        }
      }
      pump()
    })
    const webhooks = await openWebhooks(t)
    await webhooks.createEndpoint(url)
    webhooks.startWorker()
    await webhooks.testAccount.createDebtor()
    await webhooks.untilAll(({ status }) => status === 'delivered', 'the webhook is delivered')
    const [attempt] = await webhooks.attempts()
    t.equal(attempt?.response_body, 'a'.repeat(1024))
    t.ok(sent < 20_000_000, `${sent} bytes left the receiver, most of them into buffers`)
  },
)

t.test(
  'a webhook is sent only if the certificate is trusted and names the host in the URL',
  async (t) => {
    const dns = await startDns(t, () => ['127.0.0.1'])
    const tls = await createCertificate(t, 'DNS:hooks.example')
    const receiver = await startReceiver(t, { tls })
    const request = (name: string) => ({
      url: `https://${name}:${receiver.port}/`,
      headers: {},
      body: Buffer.from('{}'),
    })
    const untrusting = await openWebhooks(t, { dnsServers: [dns.server] })
    matches(t, await untrusting.sender.send(request('hooks.example')), { error: 'tls_failed' })
    const trusting = await openWebhooks(t, { dnsServers: [dns.server], ca: tls.cert })
    matches(t, await trusting.sender.send(request('hooks.example')), { succeeded: true })
    matches(t, await trusting.sender.send(request('other.example')), { error: 'tls_failed' })
    const plain = await startReceiver(t)
    const url = `https://hooks.example:${plain.port}/`
    matches(t, await trusting.sender.send({ ...request(''), url }), { error: 'tls_failed' })
    t.equal(receiver.webhooks.length, 1)
  },
)

// Regression: the log said `connection_failed` for such a certificate, as if the network were at fault.
t.test('a certificate that is not for servers is a TLS error', async (t) => {
  const dns = await startDns(t, () => ['127.0.0.1'])
  const tls = await createCertificate(t, 'DNS:hooks.example', 'clientAuth')
  const { port } = await startReceiver(t, { tls })
  const { sender } = await openWebhooks(t, { dnsServers: [dns.server], ca: tls.cert })
  const url = `https://hooks.example:${port}/`
  matches(t, await sender.send({ url, headers: {}, body: Buffer.from('{}') }), {
    error: 'tls_failed',
  })
})

t.test('receivers that hang do not delay deliveries to other receivers', async (t) => {
  const webhooks = await openWebhooks(t, { attemptMsMax: 60_000 })
  const hanging = await startReceiver(t, { respond: () => {} })
  const good = await startReceiver(t)
  for (let n = 0; n < 5; n++) await webhooks.createEndpoint(`${hanging.url}${n}`)
  const { secret } = await webhooks.createEndpoint(good.url)
  webhooks.startWorker()
  const { testAccount } = webhooks
  // An endpoint gets only 16 of these deliveries at a time.
  for (let n = 0; n < 60; n++) await testAccount.createDebtor()
  await until(() => good.webhooks.length === 60, 'the good receiver has all its webhooks')
  t.equal(hanging.webhooks.length, 5 * 16, 'each receiver that hangs has 16 deliveries in progress')
  for (const webhook of good.webhooks) t.ok(verify(webhook, secret))
})

async function http(t: Test, respond: (res: ServerResponse) => void): Promise<string> {
  const receiver = await startReceiver(t, { respond: (_, res) => respond(res) })
  return receiver.url
}

/** Starts a TCP server that calls `respond` when the first bytes of a request arrive. Resolves with its URL. */
async function raw(t: Test, respond: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => respond(socket))
  })
  return `http://127.0.0.1:${await listen(t, server)}/`
}

/** Resolves with a URL at which connections are refused: its port was released a moment ago. */
async function refusing(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `http://127.0.0.1:${port}/`
}
