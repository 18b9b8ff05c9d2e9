/** Regression: a process whose log was not read buffered it without a limit. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'

const LOG = JSON.stringify(join(import.meta.dirname, '..', '..', 'shared', 'process', 'log.ts'))
const LINES = 40_000
const SCRIPT = `
  import { createLogger } from ${LOG}
  const log = createLogger('test', 'info')
  for (let line = 0; line < ${LINES}; line++) log.info({ text: 'x'.repeat(1_000) }, 'a line')
  console.log('logged')
  process.stdin.resume().on('end', () => log.flush(() => process.exit(0)))
`

t.test(
  'if a log is not read, 16 MiB are kept, and the number of dropped lines is logged',
  async (t) => {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', SCRIPT], {
      stdio: 'pipe',
    })
    t.teardown(() => child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    const log = text(child.stderr)
    await once(child.stderr, 'data')
    child.stdin.end()
    const lines = (await log).trimEnd().split('\n')
    const last = JSON.parse(lines.at(-1) ?? '')
    t.equal(last.msg, 'the log was read too slowly: lines were dropped')
    t.equal(lines.length - 1 + last.lines, LINES)
    t.ok(lines.join('\n').length < 17 * 1024 * 1024)
  },
)
