import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { SIGNATURE_HEADER } from '../../../shared/contract/principal.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import { THIS_MACHINE } from '../../fixtures/service/machine.ts'
import { SCRIPT_ENV, startProcess } from '../../fixtures/service/process.ts'
import { until } from '../../fixtures/service/until.ts'

const SECRET = 'Zk3vQ9pLr7TnXw2sYb8cHd5fJg6mKa4e'

function environment(t: Test, overrides: Record<string, string> = {}): Record<string, string> {
  return {
    DATA_DIR: join(t.testdir(), 'data'),
    BACKEND_PORT: '0',
    BACKEND_OPERATIONS_PORT: '0',
    GATEWAY_SECRET: SECRET,
    KEY_PEPPER: `v2:${SECRET}x,v1:${SECRET}`,
    SECRET_BOX_KEY: SECRET,
    ...overrides,
  }
}

t.test('a backend reports its ports, is ready, and drains on a signal', async (t) => {
  const backend = await startProcess(t, 'backend/main.ts', environment(t))
  const operations = `http://127.0.0.1:${backend.operationsPort}`
  const readyz = await fetch(`${operations}/readyz`)
  t.equal(readyz.status, 200)
  t.strictSame(await readyz.json(), { ready: true, reasons: [], degraded: [] })
  t.equal((await fetch(`${operations}/healthz`)).status, 200)
  matches(
    t,
    await (await fetch(`${operations}/metrics`)).text(),
    containing('process_cpu_seconds_total'),
  )
  t.equal((await fetch(`${operations}/settings`)).status, 404)
  t.equal(await backend.stop(), 0)
})

// Regression: a connection stayed open after its last response, so the next request on it could be lost.
t.test('each response of a backend that drains closes its connection', async (t) => {
  const backend = await startProcess(t, 'backend/main.ts', environment(t))
  const openSocket = async () => {
    const socket = connect(backend.port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    return socket
  }
  const exchange = async (socket: Socket, bytes: string) => {
    socket.write(bytes)
    const [response] = await once(socket, 'data')
    return String(response)
  }
  const [idle, busy] = [await openSocket(), await openSocket()]
  const request = 'GET /healthz HTTP/1.1\r\nHost: backend.test\r\n\r\n'
  const unfinished = `POST / HTTP/1.1\r\nHost: backend.test\r\n${SIGNATURE_HEADER}: x\r\nContent-Length: 2\r\n\r\n{`
  busy.write(unfinished)
  matches(t, await exchange(idle, request), /^HTTP\/1\.1 404 .*\r\nconnection: keep-alive\r\n/is)
  backend.signal('SIGTERM')
  await until(() => backend.log().includes('"draining"'), 'the backend drains')
  const last = /^HTTP\/1\.1 404 .*\r\nconnection: close\r\n/is
  matches(t, await exchange(idle, request), last)
  matches(t, await exchange(busy, '}'), last)
  await backend.exited
})

// Regression: the settings of the gateway were called mistakes, although both processes may share an environment.
t.test('--check-config of a backend does not mention the settings of the gateway', async (t) => {
  const env = environment(t, { BACKEND_URLS: 'http://127.0.0.1:8081', DATA_DIRECTORY: 'data' })
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['backend/main.ts', '--check-config'],
    { env },
  )
  matches(t, stdout, containing('# DATA_DIRECTORY is not a setting of this process.'))
  t.notMatch(stdout, 'BACKEND_URLS')
})

t.test('a second backend on the same data does not start', async (t) => {
  const env = environment(t)
  const first = await startProcess(t, 'backend/main.ts', env)
  await rejectsWith(t, startProcess(t, 'backend/main.ts', env), {
    message: new RegExp(`Another backend process .pid ${first.pid}`),
  })
  await first.stop('SIGKILL')
  await startProcess(t, 'backend/main.ts', env)
})

// Regression: the system closed further connections, and neither the log nor /readyz showed this.
t.test(
  'a low limit on open files limits the connections, and the backend reports this',
  async (t) => {
    const connectionsMax = 30
    const files = `${200 + connectionsMax}`
    const backend = await startProcess(t, 'backend/main.ts', environment(t), {
      ...THIS_MACHINE,
      enter: ['prlimit', `--nofile=${files}:${files}`],
    })
    const sockets = Array.from({ length: connectionsMax + 5 }, () =>
      connect(backend.port, '127.0.0.1').on('error', () => {}),
    )
    t.teardown(() => sockets.map((socket) => socket.destroy()))
    await until(() => sockets.filter(({ closed }) => closed).length === 5, 'five are refused')
    const readyz = await fetch(`http://127.0.0.1:${backend.operationsPort}/readyz`)
    t.strictSame(await readyz.json(), {
      ready: true,
      reasons: [],
      degraded: ['connections of gateways are refused'],
    })
    const lines = backend.log().match(/connections of gateways are refused/g)
    t.equal(lines?.length, 1)
  },
)

// Regression: the error of a full or read-only disk said that another backend used the database.
t.test('a start that fails because of a file names the file and the cause', async (t) => {
  const env = environment(t)
  const path = join(String(env['DATA_DIR']), 'receivables.db')
  await (await startProcess(t, 'backend/main.ts', env)).stop()
  const notADatabase = 'x'.repeat(4096)
  for (const [file, fault] of [
    [`${path}.lock`, `The file ${path}.lock cannot be locked: SQLITE_NOTADB`],
    [path, `The database ${path} cannot be used: SQLITE_NOTADB`],
  ] as const) {
    writeFileSync(file, notADatabase)
    await rejectsWith(t, startProcess(t, 'backend/main.ts', env), { message: containing(fault) })
    rmSync(file)
  }
  await startProcess(t, 'backend/main.ts', env)
})

// Regression: the start never ended if a file system such as /proc denied that the directory can exist.
t.test('a start fails if the directory of the database cannot be created', async (t) => {
  for (const [path, fault] of [
    ['/proc/nowhere/data', 'ENOENT'],
    [join(import.meta.filename, 'data'), 'EEXIST'],
  ] as const) {
    const starting = startProcess(t, 'backend/main.ts', environment(t, { DATA_DIR: path }))
    const message = containing(`${path}/receivables.db cannot be created: ${fault}`)
    await rejectsWith(t, starting, { message })
  }
})

t.test('a missing or invalid setting prevents the start, and the error names it', async (t) => {
  const start = async (env: Record<string, string>) => {
    const error = await promisify(execFile)(process.execPath, ['backend/main.ts'], {
      env: { ...SCRIPT_ENV, ...env },
    }).catch((failure: unknown) => failure)
    return error
  }
  const { GATEWAY_SECRET, ...rest } = environment(t)
  matches(t, await start(rest), { code: 2, stderr: /GATEWAY_SECRET is not set/ })
  const wrong = {
    KEY_PEPPER: SECRET,
    SECRET_BOX_KEY: 'changeme',
    BACKEND_PROT: '1',
    BASE_URL: 'x',
  }
  matches(t, await start(environment(t, wrong)), {
    code: 2,
    stderr: /KEY_PEPPER must.*BASE_URL must.*SECRET_BOX_KEY must.*BACKEND_PROT is not/s,
  })
  matches(t, await start(environment(t, { DATABASE_URL: 'mysql://u:pw@h/d' })), {
    code: 2,
    stderr: /DATABASE_URL must be/,
  })
  // Regression: the exit code was 1, so the start was repeated.
  const direct = { DATABASE_URL: 'postgres://h/d', DATABASE_DIRECT_URL: 'postgres://u:p/w@h/d' }
  matches(t, await start(environment(t, direct)), {
    code: 2,
    stderr: /DATABASE_DIRECT_URL is not a valid/,
  })
  const file = { DATABASE_URL: 'postgres://h/d', DATABASE_DIRECT_URL: 'sqlite:/d' }
  matches(t, await start(environment(t, file)), {
    code: 2,
    stderr: /DATABASE_DIRECT_URL must be postgres/,
  })
  const mail = { SMTP_URL: 'smtp://us:hunter2@mx.acme.nl/x', MAIL_FROM: 'nobody' }
  matches(t, await start(environment(t, mail)), {
    code: 2,
    stderr: /SMTP_URL must end after the host and port\n.*MAIL_FROM must be an e-mail address/,
  })
  const fromUnknown = { SMTP_URL: 'smtp://us:hunter2@mx.acme.nl' }
  matches(t, await start(environment(t, fromUnknown)), { code: 2, stderr: /MAIL_FROM is not set/ })
})
