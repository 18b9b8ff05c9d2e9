import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import { openTestDatabase } from '../fixtures/service/database.ts'
import { SCRIPT_ENV } from '../fixtures/service/process.ts'
import { until } from '../fixtures/service/until.ts'

const ANY_PORTS = {
  GATEWAY_PORT: '0',
  GATEWAY_OPERATIONS_PORT: '0',
  BACKEND_PORT: '0',
  BACKEND_OPERATIONS_PORT: '0',
}

/**
 * Runs the program of `npm start` until it ends, with the command `wrapper` if there is one. Resolves with its exit
 * code and output.
 */
function start(settings: Readonly<Record<string, string>>, wrapper: readonly string[] = []) {
  const env = { ...SCRIPT_ENV, ...ANY_PORTS, LOG_LEVEL: 'fatal', ...settings }
  const [command = '', ...words] = [...wrapper, process.execPath, 'deploy/local.ts']
  return new Promise((resolve) => {
    execFile(command, words, { env }, (error, stdout, stderr) => {
      resolve({ code: error?.code, stdout, stderr })
    })
  })
}

// Regression: in this test and the next, `npm start` ended with a stack trace.
t.test('npm start says why its data directory cannot be used', async (t) => {
  const directory = t.testdir({ file: 'x' })
  for (const [path, code] of [
    [join(directory, 'file'), 'EEXIST'],
    [join(directory, 'file', 'data'), 'EEXIST'],
    // Regression: the start never ended.
    ['/proc/nowhere/data', 'ENOENT'],
  ] as const) {
    matches(t, await start({ DATA_DIR: path }), {
      ...{ code: 2, stdout: '' },
      stderr: new RegExp(`^The directory \\S+ of DATA_DIR cannot be used: ${code}: .*\\n$`),
    })
  }
})

// Regression: each later start failed, because the file with the secrets existed, but was incomplete.
t.test(
  'npm start creates secrets that an earlier start could not write to a full disk',
  async (t) => {
    const directory = t.testdir()
    // Without this, Node would save incomplete files in the cache that other tests use.
    const uncached = { NODE_DISABLE_COMPILE_CACHE: '1' }
    const limited = ['prlimit', '--fsize=64']
    matches(t, await start({ DATA_DIR: directory, ...uncached }, limited), {
      code: 2,
      stderr: /^The directory \S+ of DATA_DIR cannot be used: E/,
    })
    // With this password, a start ends after its backend has started.
    matches(t, await start({ DATA_DIR: directory, DEMO_PASSWORD: 'short' }), {
      stderr: /^The demo account could not be prepared: The password must have/,
    })
  },
)

t.test('npm start stops its processes if it cannot prepare the demo account', async (t) => {
  const directory = t.testdir()
  matches(t, await start({ DATA_DIR: directory, DEMO_PASSWORD: 'short' }), {
    ...{ code: 1, stdout: '' },
    stderr:
      /^The demo account could not be prepared: The password must have 8 to 256 characters\.\n$/,
  })
  // The database can be opened only if no backend uses it any more.
  await openTestDatabase(t, { url: `sqlite:${join(directory, 'receivables.db')}` })
})

/** Starts the program of `npm start`, and resolves once its output says that the service is running. */
async function startService(t: Test, settings: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, ['deploy/local.ts'], {
    env: { ...SCRIPT_ENV, ...ANY_PORTS, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await exited
  })
  // The text may arrive in several parts.
  let output = ''
  let errors = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk
  })
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk
  })
  await until(() => output.includes('Ctrl-C') || child.exitCode !== null, 'it is running')
  t.ok(output.includes('is running'), errors)
  return { child, exited, output }
}

// Regression: the processes continued, and the next `npm start` found its ports in use.
t.test('npm start stops its processes when its terminal is closed', async (t) => {
  const directory = t.testdir()
  // Regression: the demo account could not be prepared if the random password began with a hyphen.
  const settings = { DATA_DIR: directory, DEMO_PASSWORD: '-ab1cd2ef3gh' }
  const { child, exited } = await startService(t, settings)
  child.kill('SIGHUP')
  t.strictSame(await exited, [0, null])
  await openTestDatabase(t, { url: `sqlite:${join(directory, 'receivables.db')}` })
})

// Regression: the backend did not start with a file of a secret, the gateway did not start with a socket, and the
// printed addresses were always those of 127.0.0.1.
t.test('npm start uses files of secrets, a socket and another host', async (t) => {
  // The path of a socket has at most 107 bytes; the path of `t.testdir()` may be longer.
  const directory = mkdtempSync(join(tmpdir(), 'start-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  writeFileSync(join(directory, 'secret'), 'Vb0uYtq3LmX8Kd5Wn2RzPc7JhGf4As9E')
  const { output } = await startService(t, {
    DATA_DIR: join(directory, 'data'),
    GATEWAY_SECRET_FILE: join(directory, 'secret'),
    SECRET_BOX_KEY: '',
    BACKEND_SOCKET: join(directory, 'socket'),
    GATEWAY_HOST: '127.0.0.2',
  })
  const [, api = ''] = /^ +API +(http:\/\/127\.0\.0\.2:\S+)$/m.exec(output) ?? []
  const [key = ''] = /rcv_\S+/.exec(output) ?? []
  const response = await fetch(`${api}/me`, { headers: { authorization: `Bearer ${key}` } })
  t.equal(response.status, 200)
})

// Regression: the backend continued.
t.test('npm start stops its processes if its errors are no longer read', async (t) => {
  const directory = t.testdir()
  const child = spawn(process.execPath, ['deploy/local.ts'], {
    env: { ...SCRIPT_ENV, ...ANY_PORTS, DATA_DIR: directory, DEMO_PASSWORD: 'short' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exited = once(child, 'exit')
  t.teardown(() => child.kill('SIGTERM'))
  child.stderr.destroy()
  await exited
  const url = `sqlite:${join(directory, 'receivables.db')}`
  const isUnused = () =>
    openTestDatabase(t, { url }).then(
      () => true,
      () => false,
    )
  await until(isUnused, 'no backend uses the database')
})
