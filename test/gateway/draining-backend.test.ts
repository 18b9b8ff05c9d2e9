/** A backend that drains closes its idle connections, and whatever a gateway sends on one at that moment is lost. */
import t from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

// Pages and writes without a key, which must not be repeated, got 502.
t.test('nothing is sent on the idle connections to a backend that drains', async (t) => {
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
  await until(() => gateway.log().includes('"ready":false'), 'a probe says that it drains')
  t.strictSame(await statuses(), [200, 200])
})
