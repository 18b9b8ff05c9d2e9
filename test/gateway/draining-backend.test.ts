/** A draining backend closes its idle connections. A request that a gateway sends on one of them would be lost. */
import t from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

// Regression: requests that must not be repeated got 502: posts to pages, and writes without an
// Idempotency-Key.
t.test('no request is sent on idle connections to a draining backend', async (t) => {
  const backend = await startRawBackend(t)
  const gateway = await startGateway(t, backend.url)
  await until(() => gateway.log().includes('"ready":true'), 'the backend is ready')
  const key = mintApiKey().secret
  const statuses = async () => {
    const page = await fetch(`${gateway.url}/settings/login`, { method: 'POST', body: '{}' })
    const write = await call(`${gateway.url}/api/v1/debtors`, { key, body: {} })
    return [page.status, write.status]
  }
  t.strictSame(await statuses(), [200, 200])
  backend.drain()
  await until(
    () => gateway.log().includes('"ready":false'),
    'a probe has found the backend draining',
  )
  t.strictSame(await statuses(), [200, 200])
})
