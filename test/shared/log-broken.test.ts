/**
 * Regression: a process whose log could no longer be written did not exit: it retried the last lines forever, and
 * blocked the event loop.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const LOG = JSON.stringify(join(import.meta.dirname, '..', '..', 'shared', 'process', 'log.ts'))
/** Logs twice, so that one line waits while the other is written, and exits as lifecycle.ts does. */
const SCRIPT = `
  import { createLogger, exitAfterFlush } from ${LOG}
  const log = createLogger('test', 'info')
  process.stdin.resume().on('end', () => {
    log.info('draining')
    setImmediate(() => {
      log.info('drained')
      exitAfterFlush(log, 0)
    })
  })
`
/** Logs a fatal error before the write of the first line has failed. */
const FATAL_SCRIPT = `
  import { createLogger, exitAfterFlush } from ${LOG}
  const log = createLogger('test', 'info')
  process.stdin.resume().on('end', () => {
    log.error('request failed')
    log.fatal('uncaught exception')
    exitAfterFlush(log, 1)
  })
`

function commandOf(script: string): string[] {
  return ['--input-type=module', '--eval', script]
}

for (const [script, code] of [
  [SCRIPT, 0],
  [FATAL_SCRIPT, 1],
] as const) {
  t.test(`a process exits with ${code} although its log is no longer read`, async (t) => {
    const child = spawn(process.execPath, commandOf(script), { stdio: 'pipe' })
    t.teardown(() => child.kill('SIGKILL'))
    child.stderr.destroy()
    await once(child.stderr, 'close')
    child.stdin.end()
    t.strictSame(await once(child, 'exit'), [code, null])
  })

  t.test(`a process exits with ${code} although the disk for its log is full`, async (t) => {
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, commandOf(script), { stdio: ['pipe', 'ignore', full] })
    t.teardown(() => child.kill('SIGKILL'))
    child.stdin?.end()
    t.strictSame(await once(child, 'exit'), [code, null])
  })
}

// Regression: such a process did not end, not even after a second signal.
t.test(
  'a process kills itself if the reader of its log stops without closing the pipe',
  async (t) => {
    const script = `
    import { createLogger, exitAfterFlush } from ${LOG}
    const log = createLogger('test', 'info')
    for (let line = 0; line < 2_000; line++) log.info({ text: 'x'.repeat(1_000) }, 'a line')
    process.stdin.resume().on('end', () => exitAfterFlush(log, 0))
  `
    const child = spawn(process.execPath, commandOf(script), { stdio: 'pipe' })
    t.teardown(() => child.kill('SIGKILL'))
    child.stdin.end()
    t.strictSame(await once(child, 'exit'), [null, 'SIGKILL'])
  },
)
