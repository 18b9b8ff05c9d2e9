import t from 'tap'
import { matches, rejectsWith } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { untilDocsAreRendered } from '../fixtures/service/documentation.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const system = await startSystem(t)
const { cli, cliProcess } = system.operator
const url = `${system.url}/api/v1`
const json = async (...words: string[]) => JSON.parse(await cli(...words, '--json'))

t.test(
  'operators create an account, a user and a key, and restrict the account and the key while the service runs',
  async (t) => {
    const account = await json('accounts', 'create', '--name', 'Acme Ltd', '--currency', 'EUR')
    matches(t, account.id, /^acct_/)
    const user = ['--email', 'ann@acme.example', '--role', 'admin', '--password', 'correct horse']
    matches(t, (await json('users', 'create', '--account', account.id, ...user)).id, /^usr_/)
    const named = [
      '--account',
      account.id,
      '--name',
      'ERP',
      '--scopes',
      'debtors:read,debtors:write',
    ]
    const key = await json('keys', 'issue', ...named, '--rate-limit', '1000')
    matches(t, key, { id: /^key_/, secret: /^rcv_/, prefix: /^rcv_/ })
    t.ok(key.secret.startsWith(key.prefix))

    const probe = await call(`${url}/me`, { key: key.secret })
    matches(t, probe, {
      status: 200,
      json: { key: { rate_limit: 1000, label: 'ERP', last_used_at: null } },
    })
    await until(async () => {
      const [listed] = await json('keys', 'list', '--account', account.id)
      return listed?.last_used_at !== null
    }, 'the last use is recorded')

    await cli('accounts', 'set-scopes', account.id, 'payments:read')
    t.equal((await call(`${url}/debtors`, { key: key.secret })).status, 403)
    await cli('accounts', 'set-scopes', account.id, 'all')
    t.equal((await call(`${url}/debtors`, { key: key.secret })).status, 200)
    await cli('accounts', 'set-status', account.id, 'suspended')
    t.equal((await call(`${url}/debtors`, { key: key.secret, body: { name: 'x' } })).status, 423)
    await cli('keys', 'revoke', key.id)
    matches(t, await call(`${url}/debtors`, { key: key.secret }), {
      status: 401,
      json: { code: 'revoked_api_key' },
    })
  },
)

t.test('a command that fails prints the reason, and exits with an error code', async (t) => {
  await rejectsWith(t, cliProcess('keys', 'revoke', 'key_none'), {
    code: 1,
    stderr: /no API key key_none/,
  })
  await rejectsWith(t, cliProcess('keys', 'issue'), { code: 2, stderr: /--account/ })
  await rejectsWith(t, cliProcess('brew'), { code: 2 })
  matches(t, await cliProcess('--help'), /keys issue/)
})

t.test('the gateway forwards requests for pages, but not for internal routes', async (t) => {
  const page = await call(`${system.url}/settings/login`)
  matches(t, page, {
    status: 200,
    headers: { 'content-type': /^text\/html/, 'x-ratelimit-remaining': '0' },
  })
  matches(t, page.text, /Settings/)
  const emptyQuery = await call(`${system.url}/settings/login?`)
  t.equal(emptyQuery.status, 200, 'this is how a browser submits a form without fields')
  for (const path of ['/internal/ready', '/internal/api-keys/look-up', '/metrics', '/healthz']) {
    matches(t, await call(system.url + path), { status: 404, json: { code: 'route_not_found' } })
  }
  matches(t, await call(`${system.url}/`), { status: 302, headers: { location: '/docs' } })
})

t.test('the contract is served without a key', async (t) => {
  await untilDocsAreRendered(system.url)
  const document = await call(`${system.url}/docs/openapi.json`)
  matches(t, document, {
    status: 200,
    headers: { 'content-type': /^application\/json/ },
    json: { openapi: /^3\.1/, paths: { '/api/v1/me': Object } },
  })
  const source = await call(`${system.url}/docs/openapi.yaml`)
  matches(t, source.text, /^openapi: /)
})

t.test('the backend sends an empty 404 to requests that do not come from a gateway', async (t) => {
  const backend = `http://127.0.0.1:${system.backend.port}`
  for (const path of ['/', '/api/v1/me', '/settings', '/internal/ready', '/nowhere']) {
    const response = await call(backend + path, { headers: { authorization: 'Bearer x' } })
    t.equal(response.status, 404)
    t.equal(response.text, '')
  }
})

t.test('no secret is logged', async (t) => {
  const account = await json('accounts', 'create', '--name', 'Canary')
  const { secret } = await system.operator.issueKey(account.id)
  const canary = 'c4n4ry-0123456789'
  await call(`${url}/debtors?q=${canary}`, { key: secret })
  await call(`${url}/debtors`, {
    key: secret,
    body: { name: canary, email: `${canary}@x.example` },
  })
  await call(`${url}/debtors`, { key: secret, body: { name: 1, [canary]: canary } })
  await call(`${url}/payments`, { key: secret, body: {}, headers: { 'idempotency-key': canary } })
  await call(`${url}/debtors`, { key: secret.slice(0, -2) })
  await call(`${url}/nowhere`, { headers: { authorization: `Basic ${canary}`, cookie: canary } })
  await Promise.all([system.backend.stop(), ...system.gateways.map((gateway) => gateway.stop())])
  const logs = [system.backend, ...system.gateways].map((process) => process.log()).join('')
  matches(t, logs, /"msg":"call"/)
  for (const word of [canary, secret, secret.slice(13)]) t.notOk(logs.includes(word))
})
