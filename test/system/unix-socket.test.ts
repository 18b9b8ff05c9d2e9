import { once } from 'node:events'
import { lstatSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { removeStaleSocket } from '../../backend/http/socket.ts'
import { matches, rejectsWith } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { startProcess } from '../fixtures/service/process.ts'
import { startSystem } from '../fixtures/service/system.ts'

/** Returns a short path, because the path of a socket has at most 107 bytes. */
function socketFor(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'socket-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return join(directory, 'backend.sock')
}

t.test('gateway and backend use a Unix socket, even after the backend was killed', async (t) => {
  const socket = socketFor(t)
  const system = await startSystem(t, {
    backends: 1,
    backendEnv: { BACKEND_SOCKET: socket },
    gatewayEnv: { BACKEND_URLS: `unix:${socket}` },
  })
  const { secret: key } = await system.operator.issueKey(await system.operator.createAccount())
  const me = () => call(`${system.url}/api/v1/me`, { key })
  t.equal((await me()).status, 200)
  t.equal(lstatSync(socket).mode & 0o777, 0o660, 'only its user and group have access')
  const page = await fetch(`${system.url}/settings/login`)
  t.equal(page.status, 200, 'pages use the same socket')

  await system.backend.stop('SIGKILL')
  matches(t, await me(), { status: 503, headers: { 'retry-after': '1' } })
  t.ok(lstatSync(socket).isSocket(), 'the killed backend leaves its socket')
  await system.startBackend()
  const responses = await Promise.all(Array.from({ length: 10 }, me))
  t.ok(responses.every(({ status }) => status === 200))
})

t.test('a socket in use, or a file that is not a socket, is not replaced', async (t) => {
  const socket = socketFor(t)
  const start = () =>
    startProcess(t, 'backend/main.ts', {
      DATA_DIR: t.testdir(),
      BACKEND_SOCKET: socket,
      BACKEND_OPERATIONS_PORT: '0',
      GATEWAY_SECRET,
      KEY_PEPPER: 'v1:pepper+of+the+tests+0123456789abcdefghij',
      SECRET_BOX_KEY: 'box+of+the+tests+0123456789abcdefghijklmn',
    })
  const other = createServer().listen(socket)
  await rejectsWith(t, start(), /is in use by another process/)
  t.ok(other.listening && lstatSync(socket).isSocket())
  await new Promise((resolve) => other.close(resolve))
  writeFileSync(socket, 'precious')
  await rejectsWith(t, start(), /is not a socket/)
  t.ok(lstatSync(socket).isFile())
})

t.test('an error says why a backend could not test whether a socket is in use', async (t) => {
  // Regression: the message always said that another process uses the socket, even if permission was missing.
  const socket = socketFor(t)
  const other = createServer().listen(socket)
  t.teardown(() => other.close())
  await once(other, 'listening')
  const tooLong = join(dirname(socket), 's'.repeat(120))
  renameSync(socket, tooLong)
  await rejectsWith(t, removeStaleSocket(tooLong), /exists, but connecting to it failed: connect E/)
  t.ok(lstatSync(tooLong).isSocket(), 'the socket is not removed')
})
