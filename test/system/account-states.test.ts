import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { startSystem } from '../fixtures/service/system.ts'

const system = await startSystem(t)
const url = `${system.url}/api/v1`
const account = await system.operator.createAccount()
const { secret: key } = await system.operator.issueKey(account)
const debtor = (await call(`${url}/debtors`, { key, body: { name: 'Globex' } })).json.id

const WRITES: [path: string, body: unknown, headers: Record<string, string>][] = [
  ['/debtors', { name: 'Initech' }, {}],
  ['/invoices', { debtor_id: debtor, currency: 'EUR', amount: 100 }, {}],
  ['/payments', { debtor_id: debtor, currency: 'EUR', amount: 100 }, { 'idempotency-key': 'p1' }],
]
const READS = ['/me', '/debtors', `/debtors/${debtor}`, '/invoices', '/payments', '/messages']

for (const status of ['suspended', 'cancelled', 'trial_paused'] as const) {
  t.test(`once an account is ${status}, writes get 423, and reads continue`, async (t) => {
    await system.operator.setStatus(account, status)
    for (const [path, body, headers] of WRITES) {
      matches(t, await call(`${url}${path}`, { key, body, headers }), {
        status: 423,
        headers: { 'content-type': /^application\/problem\+json/, 'x-ratelimit-limit': '600' },
        json: { code: 'account_read_only', account_status: status },
      })
      const form = { ...headers, 'content-type': 'application/x-www-form-urlencoded' }
      const formResponse = await call(`${url}${path}`, { key, body: 'a=b', headers: form })
      t.equal(formResponse.status, 423, 'the state is checked before the body')
    }
    for (const path of READS) t.equal((await call(`${url}${path}`, { key })).status, 200, path)
    matches(t, (await call(`${url}/me`, { key })).json.account, { status, read_only: true })
    await system.operator.setStatus(account, 'active')
    const again = await call(`${url}/debtors`, { key, body: { name: 'Back' } })
    t.equal(again.status, 201, 'once active again, writes succeed from the next call on')
  })
}

t.test('an earlier payment can be found while the account is read-only', async (t) => {
  const headers = { 'idempotency-key': 'before' }
  const body = { debtor_id: debtor, currency: 'EUR', amount: 100 }
  const recorded = await call(`${url}/payments`, { key, body, headers })
  t.equal(recorded.status, 201)
  await system.operator.setStatus(account, 'suspended')
  t.equal((await call(`${url}/payments`, { key, body, headers })).status, 423)
  const found = await call(`${url}/payments?idempotency_key=before`, { key })
  matches(t, found.json.data, [{ id: recorded.json.id }])
  await system.operator.setStatus(account, 'active')
})

t.test(
  'a body that is not declared as JSON in UTF-8 gets 415 with the accepted media type',
  async (t) => {
    const types = [
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'text/plain',
      'application/json; charset=utf-16',
      'application/jsonp',
    ]
    for (const [path, , headers] of WRITES) {
      for (const type of types) {
        const response = await call(`${url}${path}`, {
          key,
          body: '{"name":"x"}',
          headers: { ...headers, 'content-type': type },
        })
        matches(
          t,
          response,
          {
            status: 415,
            headers: { accept: 'application/json' },
            json: { code: 'unsupported_media_type' },
          },
          `${path} ${type}`,
        )
      }
    }
    const gzip = { 'content-encoding': 'gzip' }
    t.equal((await call(`${url}/debtors`, { key, body: '{}', headers: gzip })).status, 415)
    const upper = { 'content-type': 'Application/JSON; Charset=UTF-8' }
    t.equal(
      (await call(`${url}/debtors`, { key, body: '{"name":"x"}', headers: upper })).status,
      201,
    )
  },
)
