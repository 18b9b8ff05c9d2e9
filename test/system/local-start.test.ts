import { execFile } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { openTestDatabase } from '../fixtures/service/database.ts'
import { SCRIPT_ENV } from '../fixtures/service/process.ts'

const ANY_PORTS = {
  GATEWAY_PORT: '0',
  GATEWAY_OPERATIONS_PORT: '0',
  BACKEND_PORT: '0',
  BACKEND_OPERATIONS_PORT: '0',
}

/**
 * Runs the program of `npm start` until it ends. Resolves with its exit code and output. `enter` is a command that runs
 * the program.
 */
function start(settings: Readonly<Record<string, string>>, enter: readonly string[] = []) {
  const env = { ...SCRIPT_ENV, ...ANY_PORTS, LOG_LEVEL: 'fatal', ...settings }
  const [command = '', ...words] = [...enter, process.execPath, 'deploy/local.ts']
  return new Promise((resolve) => {
    execFile(command, words, { env }, (error, stdout, stderr) => {
      resolve({ code: error?.code, stdout, stderr })
    })
  })
}

// Regression: in this test and the next, `npm start` ended with a stack trace.
t.test('npm start says why its data directory cannot be used', async (t) => {
  const directory = t.testdir({ file: 'x' })
  matches(t, await start({ DATA_DIR: join(directory, 'file') }), {
    ...{ code: 2, stdout: '' },
    stderr: /^The directory \S+ of DATA_DIR cannot be used: EEXIST: .*\n$/,
  })
})

// Regression: each later start failed, because the file with the secrets existed, but was incomplete.
t.test('npm start succeeds after a start during which the disk was full', async (t) => {
  const directory = t.testdir()
  matches(t, await start({ DATA_DIR: directory }, ['prlimit', '--fsize=64']), {
    code: 2,
    stderr: /^The directory \S+ of DATA_DIR cannot be used: E/,
  })
  matches(t, await start({ DATA_DIR: directory, DEMO_PASSWORD: 'short' }), {
    stderr: /^The demo account could not be prepared: The password must have/,
  })
})

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
