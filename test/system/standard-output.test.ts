/** The service does not depend on the program that reads its standard output. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import t from 'tap'
import { reservePort } from '../fixtures/servers/ports.ts'
import { call } from '../fixtures/service/call.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { SCRIPT_ENV } from '../fixtures/service/process.ts'
import { until } from '../fixtures/service/until.ts'

// Regression: the gateway ended if standard output could not be written. If its log could not be written either, it
// hung, and SIGTERM did not end it.
for (const [workers, log] of [
  ['1', 'ignore'],
  ['1', 'full'],
  ['2', 'full'],
] as const) {
  const name = `standard output on a full disk, ${workers} workers, log: ${log}`
  t.test(`a gateway runs and drains: ${name}`, async (t) => {
    const operationsPort = await reservePort()
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, ['gateway/gateway.ts'], {
      env: {
        ...SCRIPT_ENV,
        GATEWAY_PORT: '0',
        GATEWAY_OPERATIONS_PORT: String(operationsPort),
        GATEWAY_WORKERS: workers,
        GATEWAY_SECRET,
        BACKEND_URLS: 'http://127.0.0.1:1',
        REDIS_URL: 'redis://127.0.0.1:1',
        BASE_URL: 'https://api.test',
      },
      stdio: ['ignore', full, log === 'full' ? full : 'ignore'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    const readiness = () => call(`http://127.0.0.1:${operationsPort}/readyz`).catch(() => undefined)
    await until(
      async () => (await readiness())?.json.reasons.includes('no backend is ready'),
      'all workers run',
    )
    child.kill('SIGTERM')
    t.strictSame(await exited, [0, null])
  })
}
