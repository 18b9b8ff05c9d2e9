import t from 'tap'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'

const PAYMENTS = '/api/v1/payments'

t.test('a repeat gets the first response, byte for byte, and changes nothing', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: invoice_id } = await testAccount.createInvoice()
  const body = { invoice_id, amount: 4000, currency: 'EUR', metadata: { a: 'ä' } }
  const key = { 'idempotency-key': 'k' }
  const first = await testAccount.post(PAYMENTS, body, key)
  t.equal(first.status, 201)
  t.equal(first.headers.get('idempotent-replayed'), null)
  testAccount.backend.now = new Date('2027-03-01T00:00:00Z')
  const repeat = await testAccount.post(PAYMENTS, body, key)
  t.equal(repeat.status, 201)
  t.equal(repeat.text, first.text)
  t.equal(repeat.headers.get('location'), first.headers.get('location'))
  t.equal(repeat.headers.get('idempotent-replayed'), 'true')
  matches(t, await testAccount.read(`/api/v1/invoices/${invoice_id}`), { amount_paid: 4000 })
  t.equal((await testAccount.read(PAYMENTS)).data.length, 1)
})

t.test('bodies that differ only in formatting count as the same body', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id } = await testAccount.createDebtor()
  const headers = { 'content-type': 'application/json', 'idempotency-key': 'k' }
  const post = (body: string, more = {}) =>
    testAccount.call('POST', PAYMENTS, { headers: { ...headers, ...more }, body })
  const first = await post(`{"debtor_id":"${id}","amount":100,"currency":"EUR"}`)
  const bodies = [
    `{ "currency" : "EUR",\n "amount": 1e2, "debtor_id": "${id}" }`,
    `{"debtor_id":"${id}","amount":100.0,"currency":"\\u0045UR","reference":null}`,
  ]
  for (const body of bodies) t.equal((await post(body)).text, first.text)
  const quoted = { 'idempotency-key': '"k"' }
  t.equal((await post(bodies[0] ?? '', quoted)).text, first.text)
})

t.test(
  'the same key with another body is rejected, and the response names the first object',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { id: debtor_id } = await testAccount.createDebtor()
    const body = { debtor_id, amount: 100, currency: 'EUR' }
    const key = { 'idempotency-key': 'k' }
    const payment = await testAccount.post(PAYMENTS, body, key)
    for (const other of [{ ...body, amount: 101 }, { ...body, method: 'cash' }, {}]) {
      const { status, json } = await testAccount.post(PAYMENTS, other, key)
      t.equal(status, 422)
      matches(t, json, { code: 'idempotency_key_reused', original_payment_id: payment.json['id'] })
    }
    const debtor = await testAccount.post('/api/v1/debtors', { name: 'a' }, key)
    t.equal(debtor.status, 201, 'each operation has its own keys')
    matches(t, (await testAccount.post('/api/v1/debtors', { name: 'b' }, key)).json, {
      code: 'idempotency_key_reused',
      original_id: debtor.json['id'],
    })
  },
)

t.test('the key of a rejected call can be used again', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: invoice_id } = await testAccount.createInvoice()
  const key = { 'idempotency-key': 'k' }
  const pay = (amount: unknown) =>
    testAccount.post(PAYMENTS, { invoice_id, amount, currency: 'EUR' }, key)
  t.equal((await pay('10000')).status, 422)
  t.equal((await pay(10_001)).status, 422)
  t.equal((await pay(10_000)).status, 201)
})

t.test(
  'an idempotency key is valid for all API keys of its account, and for no other account',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const headers = { 'idempotency-key': 'k' }
    const options = { headers, body: { name: 'a' } }
    const first = await testAccount.call('POST', '/api/v1/debtors', options)
    const rotated = await testAccount.backend.issueKey(testAccount.accountId)
    const repeat = await testAccount.backend.call(rotated, 'POST', '/api/v1/debtors', options)
    t.equal(repeat.text, first.text)
    const others = await testAccount.otherAccount()
    t.not((await others.call('POST', '/api/v1/debtors', options)).json['id'], first.json['id'])
  },
)

t.test('without an idempotency key, every call creates an object', async (t) => {
  const testAccount = await openTestAccount(t)
  const options = { body: { name: 'a' } }
  const first = await testAccount.call('POST', '/api/v1/debtors', options)
  const second = await testAccount.call('POST', '/api/v1/debtors', options)
  t.not(first.json['id'], second.json['id'])
})

t.test('after the stored response was deleted, a repeated payment is still replayed', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: invoice_id } = await testAccount.createInvoice()
  const body = { invoice_id, amount: 4000, currency: 'eur' }
  const key = { 'idempotency-key': 'k' }
  const first = await testAccount.post(PAYMENTS, body, key)
  await testAccount.backend.database.transaction((tx) =>
    tx.deleteFrom('idempotency_keys').execute(),
  )
  const repeat = await testAccount.post(PAYMENTS, body, key)
  t.equal(repeat.status, 201)
  t.strictSame(repeat.json, first.json)
  t.equal(repeat.headers.get('idempotent-replayed'), 'true')
  matches(t, (await testAccount.post(PAYMENTS, { ...body, amount: 4001 }, key)).json, {
    code: 'idempotency_key_reused',
    original_payment_id: first.json['id'],
  })
  t.equal((await testAccount.read(PAYMENTS)).data.length, 1)
})

t.test(
  'of fifty concurrent calls with one key, one records a payment; the others are replays or get 409',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { id: invoice_id } = await testAccount.createInvoice()
    const body = { invoice_id, amount: 100, currency: 'EUR' }
    const responses = await Promise.all(
      Array.from({ length: 50 }, () =>
        testAccount.post(PAYMENTS, body, { 'idempotency-key': 'k' }),
      ),
    )
    const recorded = responses.filter(({ status }) => status === 201)
    t.ok(recorded.length > 0)
    t.equal(new Set(recorded.map(({ text }) => text)).size, 1)
    t.ok(responses.every(({ status }) => status === 201 || status === 409))
    t.equal(recorded.filter(({ headers }) => !headers.has('idempotent-replayed')).length, 1)
    matches(t, await testAccount.read(`/api/v1/invoices/${invoice_id}`), { amount_paid: 100 })
  },
)

t.test('of twenty concurrent payments of the whole amount, exactly one is recorded', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: invoice_id } = await testAccount.createInvoice()
  const body = { invoice_id, amount: 10_000, currency: 'EUR' }
  const responses = await Promise.all(
    Array.from({ length: 20 }, () => testAccount.post(PAYMENTS, body)),
  )
  const statuses = responses.map(({ status }) => status).sort()
  t.strictSame(statuses, [201, ...Array.from({ length: 19 }, () => 422)])
  matches(t, await testAccount.read(`/api/v1/invoices/${invoice_id}`), {
    status: 'paid',
    amount_due: 0,
  })
})
