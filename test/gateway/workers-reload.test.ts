/**
 * SIGHUP reaches every worker, even one that is starting at that time. Such a worker may have read its settings before
 * they changed.
 */
import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { SCRIPT_ENV } from '../fixtures/service/process.ts'
import { endWithThisProcess } from '../fixtures/service/terminate-children.ts'
import { until } from '../fixtures/service/until.ts'

const START_FILE = join(t.testdir(), 'start')
const supervisor = spawn(process.execPath, ['test/gateway/fixtures/slow-workers.ts'], {
  env: { ...SCRIPT_ENV, START_FILE },
  stdio: ['ignore', 'ignore', 'pipe'],
})
endWithThisProcess(supervisor)
t.teardown(() => supervisor.kill('SIGKILL'))
let log = ''
supervisor.stderr.on('data', (chunk: Buffer) => {
  log += chunk.toString()
})

/**
 * Resolves with the log line with this message, from the offset `from` of the log on. `worker` is undefined for the
 * supervisor.
 */
function untilLogged(msg: string, worker?: number, from = 0): Promise<{ readonly pid?: number }> {
  const entries = () =>
    log
      .slice(from)
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  return until(
    () => entries().find((entry) => entry.msg === msg && entry.worker === worker),
    `${msg}, in the log of ${worker === undefined ? 'the supervisor' : `worker ${worker}`}`,
  )
}

// Regression: a process that was still starting ignored SIGHUP.
t.test('a SIGHUP while the gateway starts reaches its workers', async () => {
  await untilLogged('starting', 1)
  supervisor.kill('SIGHUP')
  writeFileSync(START_FILE, '')
  await untilLogged('reloaded', 1)
  await untilLogged('reloaded', 2)
})

// Regression: a worker that was still starting got no SIGHUP.
t.test('a SIGHUP while a worker is replaced reaches the new worker', async () => {
  const { pid = 0 } = await untilLogged('starting', 1)
  await untilLogged('listening')
  const from = log.lastIndexOf('\n') + 1
  rmSync(START_FILE)
  process.kill(pid, 'SIGKILL')
  await untilLogged('starting', 3, from)
  supervisor.kill('SIGHUP')
  await untilLogged('reloaded', 2, from)
  writeFileSync(START_FILE, '')
  await untilLogged('reloaded', 3, from)
})
