/** The public listener uses TLS: requests are validated, certificates renewed, and unfinished handshakes ended. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect as connectPlain } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type ConnectionOptions, connect, createSecureContext, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { containing, matches, rejectsWith } from '../fixtures/matches.ts'
import { createCertificate } from '../fixtures/servers/certificate.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { untilClosed } from '../fixtures/servers/until-closed.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { CORPUS } from './fixtures/corpus/index.ts'
import {
  createCallCounter,
  SPLITS,
  type Trial,
  tryCase,
  withFollowUp,
} from './fixtures/corpus/trial.ts'
import { createBudget, startListener } from './fixtures/listener.ts'

const backend = await startCapturingBackend(t)
const key = backend.issue(undefined, 1_000_000)

/** Starts a gateway with a certificate for `localhost`. `write` replaces the certificate files. */
async function startTls(t: Test, env: Record<string, string> = {}) {
  const directory = t.testdir()
  const [TLS_CERT, TLS_KEY] = [join(directory, 'tls.crt'), join(directory, 'tls.key')]
  const trusted: string[] = []
  const write = async (names: string) => {
    const { cert, key } = await createCertificate(t, names)
    trusted.push(cert)
    writeFileSync(TLS_CERT, cert)
    writeFileSync(TLS_KEY, key)
  }
  await write('DNS:localhost')
  const gateway = await startGateway(t, backend.url, { TLS_CERT, TLS_KEY, ...env })
  const open = async (options: ConnectionOptions = {}): Promise<TLSSocket> => {
    const socket = connect({ port: gateway.port, host: 'localhost', ca: trusted, ...options })
    t.teardown(() => socket.destroy())
    await once(socket, 'secureConnect')
    return socket
  }
  return { gateway, url: `https://localhost:${gateway.port}`, trusted, TLS_KEY, write, open }
}

t.test('requests over TLS are validated like requests without TLS', async (t) => {
  const { gateway, url, trusted } = await startTls(t, { LOG_LEVEL: 'error' })
  // All connections share one context, and connect to an address, which needs no DNS look-up.
  const secureContext = createSecureContext({ ca: trusted })
  const dispatcher = new Agent({ connect: { ca: trusted } })
  t.teardown(() => dispatcher.destroy())
  const trial: Trial = {
    backend,
    key,
    connect: (open) => {
      const host = { host: '127.0.0.1', servername: 'localhost' }
      const socket = connect({ port: gateway.port, ...host, secureContext }, open)
      return socket.setNoDelay()
    },
    countNewCalls: await createCallCounter(async () => {
      const { headers } = await call(`${url}/api/v1/debtors?probe`, { key, dispatcher })
      return Number(headers['x-ratelimit-remaining'])
    }),
  }
  for (const split of [SPLITS['between CR and LF'], SPLITS['whole, then half closed']]) {
    for (const testCase of Object.values(CORPUS).flat()) {
      const [name, clause, , outcome] = testCase
      const seen = await tryCase(testCase, split, trial).catch(String)
      t.strictSame(seen, withFollowUp(outcome), `${name} (RFC ${clause})`)
    }
  }
  t.notMatch(gateway.log(), /uncaught/)
})

t.test('the gateway speaks TLS 1.2 or later, and only HTTP/1.1', async (t) => {
  const { open } = await startTls(t)
  const modern = await open({ ALPNProtocols: ['h2', 'http/1.1'] })
  matches(t, modern, { alpnProtocol: 'http/1.1', authorized: true })
  t.equal(modern.getProtocol(), 'TLSv1.3')
  t.equal((await open({ maxVersion: 'TLSv1.2' })).getProtocol(), 'TLSv1.2')
  await t.rejects(open({ minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1' }))
  await rejectsWith(t, open({ ALPNProtocols: ['h2'] }), { code: /NO_APPLICATION_PROTOCOL/ })
})

t.test(
  'after SIGHUP new connections get the new certificate, and open ones continue',
  async (t) => {
    const { gateway, open, write, TLS_KEY } = await startTls(t)
    const before = await open()
    const serve = async (socket: TLSSocket) => {
      socket.write(
        `GET /api/v1/debtors HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`,
      )
      return String(await once(socket, 'data'))
    }
    matches(t, await serve(before), containing('HTTP/1.1 200'))
    await write('DNS:localhost,DNS:renewed.example')
    gateway.signal('SIGHUP')
    await until(() => gateway.log().includes('"reloaded"'), 'the gateway has read the files again')
    const after = await open()
    matches(t, after.getPeerCertificate().subjectaltname, containing('renewed.example'))
    matches(t, await serve(before), containing('HTTP/1.1 200'), 'on the connection that was open')

    writeFileSync(TLS_KEY, 'not a key')
    gateway.signal('SIGHUP')
    await until(
      () => /"error".*TLS_KEY cannot be used/.test(gateway.log()),
      'the gateway rejects the files',
    )
    matches(t, (await open()).getPeerCertificate().subjectaltname, containing('renewed.example'))
  },
)

// Regression: each connection could repeat its handshake three times.
t.test('a client cannot renegotiate, before or after the certificate is renewed', async (t) => {
  const { gateway, open, write } = await startTls(t)
  const renegotiate = async () => {
    const socket = await open({ maxVersion: 'TLSv1.2' })
    return new Promise<string>((resolve) => {
      socket.on('error', ({ message }) => resolve(message))
      socket.renegotiate({}, () => resolve('renegotiated'))
    })
  }
  matches(t, await renegotiate(), containing('no renegotiation'))
  await write('DNS:localhost')
  gateway.signal('SIGHUP')
  await until(() => gateway.log().includes('"reloaded"'), 'the gateway has read the files again')
  matches(t, await renegotiate(), containing('no renegotiation'))
})

// Regression: a worker resumed only its own sessions, so most connections took the CPU time of a whole handshake.
t.test('workers resume the sessions of each other, also after a renewal', async (t) => {
  const workers = { GATEWAY_WORKERS: '3', REDIS_URL: 'redis://127.0.0.1:1' }
  const { gateway, open, write } = await startTls(t, workers)
  const areAllResumed = async () => {
    const first = await open()
    const [session] = await once(first.resume(), 'session')
    const others = await Promise.all(Array.from({ length: 12 }, () => open({ session })))
    return others.every((socket) => socket.isSessionReused())
  }
  await until(areAllResumed, 'all workers have the same keys')
  await write('DNS:localhost')
  gateway.signal('SIGHUP')
  const reloads = () => gateway.log().split('"msg":"reloaded"').length - 1
  await until(() => reloads() === 4, 'the supervisor and its workers have read the files again')
  t.ok(await areAllResumed())
})

// Regression: the handshakes of these connections were confused, and one of the connections was closed.
t.test('a client may connect to two addresses from the same port at the same time', async (t) => {
  const tls = await createCertificate(t, 'DNS:localhost')
  const budget = createBudget()
  const serve = () => ({ status: 200, headers: [], body: Buffer.from('served') })
  const hosts = ['127.0.0.1', '127.0.0.2']
  const port = await startListener(t, { tls, budget, serve }, hosts)
  const localPort = await reservePort()
  const sockets = hosts.map((host) =>
    connectPlain({ host, port, localAddress: '127.0.0.1', localPort }),
  )
  await until(() => budget.handshakes === 2, 'both connections are in their handshake')
  for (const socket of sockets) {
    const client = connect({ socket, ca: tls.cert, servername: 'localhost' })
    t.teardown(() => client.destroy())
    client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    matches(t, await text(client), containing('served'))
  }
})

t.test('a handshake that is never completed is ended, even if bytes keep arriving', async (t) => {
  const { gateway } = await startTls(t)
  const silent = connectPlain(gateway.port, '127.0.0.1')
  const dripping = connectPlain(gateway.port, '127.0.0.1')
  // A TLS record of 512 bytes, of which one byte is sent every 500 ms. The whole record would take over four minutes.
  const hello = Buffer.concat([Buffer.from([22, 3, 1, 2, 0]), Buffer.alloc(512, 1)])
  let sent = 0
  const drip = setInterval(() => dripping.write(hello.subarray(sent, ++sent)), 500)
  t.teardown(() => clearInterval(drip))
  await Promise.all([untilClosed(silent.resume()), untilClosed(dripping.resume())])
  t.notMatch(gateway.log(), /uncaught/)
  t.equal(await gateway.stop(), 0)
})

t.test('a gateway drains although a handshake is in progress', async (t) => {
  const { gateway, open } = await startTls(t)
  const idle = await open()
  const half = connectPlain(gateway.port, '127.0.0.1')
  await once(half, 'connect')
  const closed = Promise.all([untilClosed(half.resume()), untilClosed(idle.resume())])
  t.equal(await gateway.stop(), 0)
  await closed
})
