/** All open connections to a backend stop working at the same time, as when a firewall in between restarts. */
import t from 'tap'
import { startLink } from '../fixtures/servers/link.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const CALLS = 8

// Regression: a dead idle connection was detected only when a call on it got 504 at its deadline.
t.test('idle connections are replaced once the backend misses a probe', async (t) => {
  const backend = await startCapturingBackend(t)
  const key = backend.issue()
  const { port, stallOpenConnections } = await startLink(t, Number(new URL(backend.url).port))
  const gateway = await startGateway(t, `http://127.0.0.1:${port}`)
  // The gateway does not retry these writes, so a call on a dead connection would fail.
  const statuses = async () => {
    const calls = Array.from({ length: CALLS }, () =>
      call(`${gateway.url}/api/v1/debtors`, { key, body: {} }),
    )
    return (await Promise.all(calls)).map(({ status }) => status)
  }
  await until(() => /"ready":true/.test(gateway.log()), 'the backend is ready')
  const served = new Array(CALLS).fill(200)
  t.strictSame(await statuses(), served)
  await until(() => {
    // If this machine is busy, the connection of the probes may be closed after some idle seconds. The next probe then
    // uses a new connection, which must stall too.
    if (!/"ready":false/.test(gateway.log())) stallOpenConnections()
    return /"ready":false.*"ready":true/s.test(gateway.log())
  }, 'a probe was missed')
  t.strictSame(await statuses(), served)
})

// Regression: these calls, and all later calls with the same keys, waited for 10 s, and then got 503.
t.test('keys that are being looked up over dead connections are looked up again', async (t) => {
  const backend = await startCapturingBackend(t)
  const { port, stallOpenConnections } = await startLink(t, Number(new URL(backend.url).port))
  const gateway = await startGateway(t, `http://127.0.0.1:${port}`, {
    GATEWAY_UPSTREAM_TIMEOUT_MS: '30000',
  })
  await until(() => /"ready":true/.test(gateway.log()), 'the backend is ready')
  backend.delayLookUps(5_000)
  // The gateway itself rejects these calls, after it has looked the keys up.
  const calls = Array.from({ length: CALLS }, () =>
    call(`${gateway.url}/api/v1/nowhere`, { key: backend.issue() }),
  )
  await until(() => backend.lookUps() === CALLS, 'the keys are being looked up')
  stallOpenConnections()
  backend.delayLookUps(0)
  const statuses = (await Promise.all(calls)).map(({ status }) => status)
  t.strictSame(statuses, new Array(CALLS).fill(404))
})
