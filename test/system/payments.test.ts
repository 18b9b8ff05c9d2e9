import t from 'tap'
import { Agent } from 'undici'
import { containing, matches } from '../fixtures/matches.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { startSystem } from '../fixtures/service/system.ts'

const redis = await startRedis(t)
const system = await startSystem(t, { gateways: 2, redisUrl: redis.url })
const account = await system.operator.createAccount()
const { secret: key } = await system.operator.issueKey(account, { rateLimit: 100_000 })
const urls = system.gateways.map(({ url }) => `${url}/api/v1`)
const [url] = urls
const dispatcher = new Agent({ connections: 64 })
t.teardown(() => dispatcher.close())

const debtorId = (await call(`${url}/debtors`, { key, body: { name: 'Globex' } })).json.id

async function createInvoice(amount: number): Promise<string> {
  const body = { debtor_id: debtorId, currency: 'EUR', amount }
  return (await call(`${url}/invoices`, { key, body })).json.id
}

/** Sends `count` payments concurrently, to the gateways in turn. */
function payConcurrently(count: number, body: unknown, idempotencyKey: (index: number) => string) {
  return Promise.all(
    Array.from({ length: count }, (_, index) =>
      call(`${urls[index % urls.length]}/payments`, {
        key,
        body,
        headers: { 'idempotency-key': idempotencyKey(index) },
        dispatcher,
      }),
    ),
  )
}

t.test(
  '50 concurrent calls with one Idempotency-Key record one payment, and each gets the same bytes or 409',
  async (t) => {
    const invoice_id = await createInvoice(12_500)
    const body = { invoice_id, currency: 'EUR', amount: 5_000 }
    const responses = await payConcurrently(50, body, () => 'one-key')
    const recorded = responses.filter(({ status }) => status === 201)
    for (const response of responses) {
      if (response.status === 201) continue
      matches(t, response, {
        status: 409,
        json: { code: 'idempotency_in_progress' },
        headers: { 'retry-after': '1' },
      })
    }
    t.ok(recorded.length >= 1)
    t.equal(new Set(recorded.map(({ text }) => text)).size, 1)
    const originals = recorded.filter(({ headers }) => headers['idempotent-replayed'] === undefined)
    t.equal(originals.length, 1)
    const list = await call(`${url}/payments?idempotency_key=one-key`, { key })
    t.equal(list.json.data.length, 1)
    matches(t, (await call(`${url}/invoices/${invoice_id}`, { key })).json, {
      status: 'partially_paid',
      amount_paid: 5_000,
      amount_due: 7_500,
    })
  },
)

t.test(
  'of 20 concurrent payments of the whole amount of an invoice, one is recorded',
  async (t) => {
    const invoice_id = await createInvoice(9_900)
    const body = { invoice_id, currency: 'EUR', amount: 9_900 }
    const responses = await payConcurrently(20, body, (index) => `full-${index}`)
    t.equal(responses.filter(({ status }) => status === 201).length, 1)
    for (const response of responses.filter(({ status }) => status !== 201)) {
      matches(t, response, {
        status: 422,
        json: { code: 'payment_exceeds_balance', amount_due: 0 },
      })
    }
    const list = await call(`${url}/payments?invoice_id=${invoice_id}`, { key })
    t.equal(list.json.data.length, 1)
  },
)

t.test(
  'with one Idempotency-Key, the first accepted call is replayed, and another body is rejected',
  async (t) => {
    const invoice_id = await createInvoice(1_000)
    const pay = (body: unknown) =>
      call(`${url}/payments`, { key, body, headers: { 'idempotency-key': 'r-1' } })
    const tooMuch = await pay({ invoice_id, currency: 'EUR', amount: 1_001 })
    matches(t, tooMuch, {
      status: 422,
      json: { code: 'payment_exceeds_balance', amount_due: 1_000 },
    })
    const first = await pay({ invoice_id, currency: 'EUR', amount: 400 })
    matches(t, first, {
      status: 201,
      json: { amount: 400, effects: { invoices: [{ amount_due: 600 }] } },
    })
    matches(t, first.headers['location'], containing(`/api/v1/payments/${first.json.id}`))
    const again = await pay({ currency: 'EUR', amount: 400.0, invoice_id })
    t.equal(again.status, 201)
    t.equal(again.text, first.text)
    t.equal(again.headers['idempotent-replayed'], 'true')
    t.equal(again.headers['location'], first.headers['location'])
    t.not(again.headers['x-request-id'], first.headers['x-request-id'])
    matches(t, await pay({ invoice_id, currency: 'EUR', amount: 500 }), {
      status: 422,
      json: { code: 'idempotency_key_reused', original_payment_id: first.json.id },
    })
  },
)

t.test('a payment without a valid Idempotency-Key gets 400', async (t) => {
  const body = { debtor_id: debtorId, currency: 'EUR', amount: 1 }
  const cases: [Record<string, string>, string][] = [
    [{}, 'idempotency_key_required'],
    [{ 'idempotency-key': 'a b' }, 'idempotency_key_invalid'],
    [{ 'idempotency-key': 'x'.repeat(256) }, 'idempotency_key_invalid'],
    [{ 'idempotency-key': 'é' }, 'idempotency_key_invalid'],
  ]
  for (const [headers, code] of cases) {
    matches(t, await call(`${url}/payments`, { key, body, headers }), {
      status: 400,
      json: { code },
    })
  }
})

t.test(
  'all errors of a body are reported together, with pointers, and nothing is recorded',
  async (t) => {
    const countBefore = (await call(`${url}/payments?limit=200`, { key })).json.data.length
    const body = {
      amount: '100',
      currency: 'EURO',
      debtor_id: debtorId,
      received_on: '2024-02-30',
      method: 'barter',
      ammount: 1,
    }
    const response = await call(`${url}/payments`, {
      key,
      body,
      headers: { 'idempotency-key': 'bad' },
    })
    matches(t, response, { status: 422, json: { code: 'validation_failed' } })
    const pointers = response.json.errors.map(({ pointer }: { pointer: string }) => pointer)
    t.strictSame(
      pointers.toSorted(),
      ['/amount', '/ammount', '/currency', '/method', '/received_on'].toSorted(),
    )
    const bodies: [string, number, string][] = [
      ['{"amount":1,"amount":2}', 400, 'duplicate_json_key'],
      ['{"amount":1', 400, 'malformed_json'],
      ['[]', 400, 'malformed_json'],
      ['', 400, 'malformed_json'],
      [`${'{"a":'.repeat(30)}1${'}'.repeat(30)}`, 400, 'malformed_json'],
      ['{"__proto__":{"x":1}}', 422, 'validation_failed'],
    ]
    for (const [text, status, code] of bodies) {
      const headers = { 'idempotency-key': 'bad', 'content-type': 'application/json' }
      const rejected = await call(`${url}/payments`, { key, method: 'POST', body: text, headers })
      matches(t, rejected, { status, json: { code } }, text.slice(0, 30))
    }
    t.equal((await call(`${url}/payments?limit=200`, { key })).json.data.length, countBefore)
  },
)
