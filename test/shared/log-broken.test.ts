/**
 * Before the fix, a process whose log could no longer be written did not exit: it retried the last lines forever, and
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
  import { createLogger } from ${LOG}
  const log = createLogger('test', 'info')
  process.stdin.resume().on('end', () => {
    log.info('draining')
    setImmediate(() => {
      log.info('drained')
      log.flush(() => process.exit(0))
    })
  })
`
const COMMAND = ['--input-type=module', '--eval', SCRIPT]

t.test('a process exits although its log is no longer read', async (t) => {
  const child = spawn(process.execPath, COMMAND, { stdio: 'pipe' })
  t.teardown(() => child.kill('SIGKILL'))
  child.stderr.destroy()
  await once(child.stderr, 'close')
  child.stdin.end()
  t.strictSame(await once(child, 'exit'), [0, null])
})

t.test('a process exits although the disk for its log is full', async (t) => {
  const full = openSync('/dev/full', 'w')
  const child = spawn(process.execPath, COMMAND, { stdio: ['pipe', 'ignore', full] })
  t.teardown(() => child.kill('SIGKILL'))
  child.stdin?.end()
  t.strictSame(await once(child, 'exit'), [0, null])
})
