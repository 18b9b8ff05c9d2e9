// A script uses Settings through gateways.
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const PASSWORD = 'correct horse battery'
const JSON_ONLY = { accept: 'application/json' }

const redis = await startRedis(t)
// There is one backend, so that stopping it makes Settings unavailable.
const system = await startSystem(t, { gateways: 2, redisUrl: redis.url, backends: 1 })
const account = await system.operator.createAccount()
const adaOptions = ['--email', 'ada@acme.example', '--role', 'admin', '--password', PASSWORD]
await system.operator.cli('users', 'create', '--account', account, ...adaOptions)

async function logIn() {
  const response = await call(`${system.url}/settings/login`, {
    body: { email: 'ada@acme.example', password: PASSWORD },
    headers: JSON_ONLY,
  })
  t.equal(response.status, 200)
  const cookie = String(response.headers['set-cookie']).split(';')[0] ?? ''
  const headers = { ...JSON_ONLY, cookie, 'x-csrf-token': response.json.csrf_token }
  return {
    get: (path: string) => call(`${system.url}/settings${path}`, { headers }),
    post: (path: string, body?: unknown) =>
      call(`${system.url}/settings${path}`, {
        method: 'POST',
        headers,
        ...(body === undefined ? {} : { body }),
      }),
    put: (path: string, body: unknown) =>
      call(`${system.url}/settings${path}`, { method: 'PUT', headers, body }),
  }
}

const ada = await logIn()

t.test('keys are issued and revoked in Settings for every gateway', async (t) => {
  const issued = await ada.post('/api-keys', { name: 'ERP', scopes: ['debtors:read'] })
  matches(t, issued, { status: 201, headers: { 'cache-control': 'no-store' } })
  const statuses = async (path: string) => {
    const responses = system.gateways.map(({ url }) =>
      call(`${url}/api/v1${path}`, { key: issued.json.secret }),
    )
    return (await Promise.all(responses)).map(({ status }) => status)
  }
  t.strictSame(await statuses('/debtors'), [200, 200])
  t.equal((await ada.put('/scope-allowance', { scopes: ['invoices:read'] })).status, 200)
  t.strictSame(await statuses('/debtors'), [403, 403])
  t.strictSame(await statuses('/me'), [200, 200])
  t.equal((await ada.post(`/api-keys/${issued.json.id}/revoke`)).status, 200)
  t.strictSame(await statuses('/debtors'), [401, 401])
  t.strictSame(await statuses('/me'), [401, 401])
})

t.test('the audit log names the person and the address', async (t) => {
  const { json } = await ada.get('/audit-log')
  matches(t, json.data.slice(0, 3), [
    { action: 'api_key.revoked', actor: { label: 'ada@acme.example' }, address: '127.0.0.1' },
    { action: 'account.scopes_changed', detail: { scopes: ['invoices:read'] } },
    { action: 'api_key.issued', detail: { name: 'ERP' } },
  ])
  t.ok(json.data.some(({ action }: { action: string }) => action === 'user.logged_in'))
})

// Regression: the gateway cut forms with a CSV file off after 256 KiB.
t.test('a gateway forwards a CSV file of 900 KB whole, and rejects one of 1.1 MB', async (t) => {
  const head = 'Invoice number,Customer ID,Customer name,Invoice date,Due date,Amount'
  const fileOf = (rows: number) =>
    [head, ...Array.from({ length: rows }, (_, n) => rowOf(n))].join('\n')
  const rowOf = (n: number) => `${n},C-1,${'Jansen Bouw '.repeat(6)},2026-10-01,2026-10-31,1250.00`
  const send = (file: string) =>
    ada.post('/import', { date_format: 'YYYY-MM-DD', currency: 'EUR', file })
  matches(t, await send(fileOf(8000)), {
    status: 200,
    json: { missing: { customers: 1, invoices: 8000 } },
  })
  const large = await send(fileOf(9500))
  matches(t, large, { status: 413, json: { code: 'payload_too_large', max_bytes: 1024 * 1024 } })
})

// Regression: the checks took more than the ten seconds that the gateway waits, so that the response was 504.
t.test('a large CSV file with four errors in every line is rejected with the errors', async (t) => {
  const head = 'Invoice number,Customer ID,Customer name,Invoice date,Due date,Amount,Paid on'
  const file = `${head}\n${'a,b,c,d,e,f,g\n'.repeat(60_000)}`
  const rejected = await ada.post('/import', { date_format: 'YYYY-MM-DD', currency: 'EUR', file })
  matches(t, rejected, { status: 422, json: { detail: /^The file has 240000 errors/ } })
})

const today = () => new Date().toISOString().slice(0, 10)

type Hour = Record<'succeeded' | 'refused' | 'failed', number>

/** Returns the sum of the hours, because the next hour may begin while the test makes its calls. */
const totals = (hours: readonly Hour[]): Hour => ({
  succeeded: hours.reduce((sum, hour) => sum + hour.succeeded, 0),
  refused: hours.reduce((sum, hour) => sum + hour.refused, 0),
  failed: hours.reduce((sum, hour) => sum + hour.failed, 0),
})

t.test(
  'within seconds, the page of a key shows rejected calls and the state of its limit',
  async (t) => {
    const { json: issued } = await ada.post('/api-keys', {
      name: 'Chart',
      scopes: ['debtors:read'],
    })
    const [first, second] = system.gateways
    await ada.put('/scope-allowance', { scopes: ['debtors:read'] })
    const firstDay = today()
    for (const path of ['/me', '/debtors', '/invoices', '/nowhere', '/nowhere']) {
      await call(`${first?.url}/api/v1${path}`, { key: issued.secret })
      await call(`${second?.url}/api/v1${path}`, { key: issued.secret })
    }
    const usage = await until(
      async () => {
        const { json } = await ada.get(`/api-keys/${issued.id}`)
        const { succeeded, refused } = totals(json.usage.calls_by_hour)
        // The backend stores the windows of a report after its calls. Until then, there may be no window.
        const isCounted = succeeded + refused === 10 && json.usage.window?.used === 10
        return isCounted && json.usage
      },
      'all calls are counted',
      20_000,
    )
    t.strictSame(totals(usage.calls_by_hour), { succeeded: 4, refused: 6, failed: 0 })
    const { last_day: lastDay, ...error } = usage.top_errors[0]
    t.strictSame(error, { code: 'route_not_found', calls: 4 })
    t.ok([firstDay, today()].includes(lastDay), lastDay)
    matches(t, usage.window, { used: 10, limit: 600, resets_at: /Z$/ })
  },
)

t.test('a session survives a restart of the backend', async (t) => {
  await system.backend.stop('SIGTERM')
  t.equal((await ada.get('/session')).status, 503)
  await system.startBackend()
  t.equal((await ada.get('/session')).status, 200)
  t.equal((await ada.post('/logout')).status, 204)
  t.equal((await ada.get('/session')).status, 401)
})

t.test('a gateway with SETTINGS_PAGES=off serves the API, but no pages of Settings', async (t) => {
  const backend = `http://127.0.0.1:${system.backend.port}`
  const { url } = await startGateway(t, backend, { SETTINGS_PAGES: 'off' })
  for (const path of ['/settings', '/settings/login', '/settings/api-keys']) {
    matches(t, await call(url + path), { status: 404, json: { code: 'route_not_found' } }, path)
  }
  matches(t, await call(`${url}/api/v1/me`), { status: 401, json: { code: 'missing_api_key' } })
  const link = await call(`${url}/mail/unsubscribe/x`)
  matches(
    t,
    link,
    { status: 404, text: /This link does not work/ },
    'the gateway still forwards links in mails',
  )
})
