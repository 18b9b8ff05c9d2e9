import t from 'tap'
import { setStatus } from '../../../backend/accounts/accounts.ts'
import { setApplyCredit } from '../../../backend/accounts/apply-credit.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { revokeApiKey } from '../../../backend/api-keys/api-keys.ts'
import { openWebhooks, type Webhooks } from '../../fixtures/accounts/webhooks.ts'
import { matches } from '../../fixtures/matches.ts'

const ENDPOINT_URL = 'https://example.com/hook'

t.test(
  'a payment that settles an invoice causes two events, and its replay causes none',
  async (t) => {
    const webhooks = await openWebhooks(t)
    const { testAccount } = webhooks
    const invoice = await testAccount.createInvoice()
    await webhooks.createEndpoint(ENDPOINT_URL)
    const body = { amount: 10_000, currency: 'EUR', invoice_id: invoice.id }
    const first = await testAccount.post('/api/v1/payments', body, { 'idempotency-key': 'once' })
    const replay = await testAccount.post('/api/v1/payments', body, { 'idempotency-key': 'once' })
    t.equal(replay.headers.get('idempotent-replayed'), 'true')
    const [paid, recorded, ...others] = await events(webhooks)
    t.strictSame(others, [])
    matches(t, paid, {
      id: /^evt_/,
      type: 'invoice.paid',
      timestamp: testAccount.backend.now.toISOString(),
      api_version: 'v1',
      account_id: testAccount.accountId,
    })
    t.strictSame(paid.data.object, await testAccount.read(`/api/v1/invoices/${invoice.id}`))
    matches(t, paid.data.previous, { status: 'open', amount_due: 10_000, amount_paid: 0 })
    t.notOk('currency' in paid.data.previous, 'previous has only changed members')
    t.equal(recorded.type, 'payment.recorded')
    t.strictSame(recorded.data, { object: first.json, previous: null, revision: 1 })
  },
)

t.test('the event of each invoice that a payment settles contains its lines', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const { accountId, backend } = testAccount
  await backend.database.transaction((tx) =>
    setApplyCredit(tx, accountId, 'oldest_first', { actor: OPERATOR, now: backend.now }),
  )
  const { id: debtor_id } = await testAccount.createDebtor()
  const invoices = []
  for (const description of ['Bricks', 'Mortar', 'Tiles', 'Grout']) {
    const line_items = [{ description, unit_amount: 100 }]
    invoices.push(await testAccount.createInvoice({ debtor_id, line_items }))
  }
  await webhooks.createEndpoint(ENDPOINT_URL, ['invoice.paid'])
  const allocations = invoices.slice(0, 2).map(({ id }) => ({ invoice_id: id, amount: 100 }))
  await testAccount.create('/api/v1/payments', { currency: 'EUR', amount: 200, allocations })
  await testAccount.create('/api/v1/payments', { currency: 'EUR', amount: 200, debtor_id })
  const paid = await events(webhooks)
  t.strictSame(
    paid.map(({ data }) => data.object),
    await Promise.all(invoices.map(({ id }) => testAccount.read(`/api/v1/invoices/${id}`))),
  )
  t.ok(
    paid.every(({ data }) => !('line_items' in data.previous)),
    'the lines have not changed',
  )
})

t.test('the creation and the payment of an invoice cause the corresponding events', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  await webhooks.createEndpoint(ENDPOINT_URL)
  const debtor = await testAccount.createDebtor()
  const invoice = await testAccount.createInvoice({ debtor_id: debtor.id })
  const draft = await testAccount.createInvoice({ debtor_id: debtor.id, status: 'draft' })
  const pay = (amount: number) =>
    testAccount.create('/api/v1/payments', { amount, currency: 'EUR', invoice_id: invoice.id })
  await pay(1000)
  await pay(2000)
  t.strictSame(await webhooks.eventTypes(), [
    'debtor.created',
    'invoice.created',
    'invoice.created',
    'invoice.partially_paid',
    'payment.recorded',
    'invoice.partially_paid',
    'payment.recorded',
  ])
  const [created, opened, drafted] = await events(webhooks)
  t.strictSame(created.data, { object: debtor, previous: null, revision: 1 })
  t.strictSame(opened.data, { object: invoice, previous: null, revision: 1 })
  t.strictSame(drafted.data.object.status, draft.status)
})

t.test('a rejected write causes no event', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const invoice = await testAccount.createInvoice()
  await webhooks.createEndpoint(ENDPOINT_URL)
  const tooMuch = { amount: 10_001, currency: 'EUR', invoice_id: invoice.id }
  t.equal((await testAccount.post('/api/v1/payments', tooMuch)).status, 422)
  t.equal((await testAccount.post('/api/v1/debtors', { name: '' })).status, 422)
  t.strictSame(await webhooks.eventTypes(), [])
})

t.test('changes to keys and to the state of the account cause events', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend, accountId } = webhooks.testAccount
  await webhooks.createEndpoint(ENDPOINT_URL)
  const { row, secret } = await backend.issueKey(accountId, { name: 'ERP' })
  const actionContext = { actor: OPERATOR, now: backend.now }
  await backend.database.transaction((tx) => revokeApiKey(tx, row.id, actionContext))
  await backend.database.transaction((tx) => revokeApiKey(tx, row.id, actionContext))
  await backend.database.transaction((tx) => setStatus(tx, accountId, 'suspended', actionContext))
  await backend.database.transaction((tx) => setStatus(tx, accountId, 'cancelled', actionContext))
  await backend.database.transaction((tx) => setStatus(tx, accountId, 'active', actionContext))
  const [issued, revoked, readOnly, writable, ...others] = await events(webhooks)
  t.strictSame(others, [], 'no event if both states are read-only')
  matches(t, issued, {
    type: 'api_key.issued',
    data: { object: { label: 'ERP', status: 'active' } },
  })
  matches(t, revoked, {
    type: 'api_key.revoked',
    data: { object: { status: 'revoked' }, previous: { status: 'active' } },
  })
  matches(t, readOnly, {
    type: 'account.read_only_changed',
    data: { object: { read_only: true }, previous: { read_only: false, status: 'active' } },
  })
  matches(t, writable.data, { object: { read_only: false }, previous: { read_only: true } })
  t.notMatch(JSON.stringify([issued, revoked]), secret)
})

t.test(
  'an event creates a delivery for each subscribed endpoint of its account, even if paused, but not if disabled',
  async (t) => {
    const webhooks = await openWebhooks(t)
    const { backend } = webhooks.testAccount
    const debtors = await webhooks.createEndpoint(ENDPOINT_URL, ['debtor.created'])
    const all = await webhooks.createEndpoint(ENDPOINT_URL)
    const paused = await webhooks.createEndpoint(ENDPOINT_URL)
    const disabled = await webhooks.createEndpoint(ENDPOINT_URL)
    await backend.database.transaction(async (tx) => {
      const set = (id: string, values: object) =>
        tx.updateTable('webhook_endpoints').set(values).where('id', '=', id).execute()
      await set(paused.row.id, { status: 'paused' })
      await set(disabled.row.id, { status: 'disabled', disabled_reason: 'gone' })
    })
    const others = await webhooks.testAccount.otherAccount()
    await others.createDebtor()
    t.strictSame(await webhooks.deliveries(), [])
    const { id: debtor_id } = await webhooks.testAccount.createDebtor()
    await webhooks.testAccount.createInvoice({ debtor_id })
    const deliveries = await webhooks.deliveries()
    const ofType = (type: string) =>
      deliveries.filter(({ event_type }) => event_type === type).map((row) => row.endpoint_id)
    t.strictSame(
      ofType('debtor.created').sort(),
      [debtors.row.id, all.row.id, paused.row.id].sort(),
    )
    t.strictSame(ofType('invoice.created').sort(), [all.row.id, paused.row.id].sort())
  },
)

t.test('an event without a subscribed endpoint is not recorded', async (t) => {
  const webhooks = await openWebhooks(t)
  await webhooks.createEndpoint(ENDPOINT_URL, ['payment.recorded'])
  await webhooks.testAccount.createInvoice()
  t.strictSame(await webhooks.eventTypes(), [])
})

async function events({ testAccount }: Webhooks) {
  const { read } = testAccount.backend.database
  const rows = await read.selectFrom('webhook_events').select('body').orderBy('id').execute()
  return rows.map(({ body }) => JSON.parse(body))
}
