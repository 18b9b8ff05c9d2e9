import t from 'tap'
import { nextRevision } from '../../../backend/database/revision.ts'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'

const PAYMENTS = '/api/v1/payments'

t.test('a payment settles its invoice and reports its effects', async (t) => {
  const testAccount = await openTestAccount(t)
  const invoice = await testAccount.createInvoice()
  testAccount.backend.now = new Date('2026-11-25T08:00:00.000Z')
  const response = await testAccount.post(
    PAYMENTS,
    {
      invoice_id: invoice.id,
      amount: 10_000,
      currency: 'eur',
      external_id: 'bank-1',
      reference: '',
    },
    { 'idempotency-key': 'bank-1' },
  )
  t.equal(response.status, 201)
  t.equal(response.headers.get('location'), `${PAYMENTS}/${response.json['id']}`)
  matches(t, response.json, {
    object: 'payment',
    id: /^pay_/,
    debtor_id: invoice.debtor_id,
    external_id: 'bank-1',
    amount: 10_000,
    currency: 'EUR',
    currency_exponent: 2,
    allocations: [{ invoice_id: invoice.id, amount: 10_000 }],
    unapplied_amount: 0,
    received_on: '2026-11-25',
    method: 'other',
    reference: null,
    status: 'recorded',
    idempotency_key: 'bank-1',
    source: 'api',
    recorded_by: { type: 'api_key', id: testAccount.key.row.id, label: testAccount.key.row.name },
    effects: {
      invoices: [{ id: invoice.id, status: 'paid', amount_due: 0 }],
      messages_cancelled: 0,
      messages_in_flight: [],
    },
  })
  matches(t, await testAccount.read(`/api/v1/invoices/${invoice.id}`), {
    status: 'paid',
    amount_paid: 10_000,
    amount_due: 0,
    paid_at: '2026-11-25T08:00:00.000Z',
    updated_at: '2026-11-25T08:00:00.000Z',
    chasing: { status: 'stopped', next_stage: null, next_action_at: null },
  })
  const debtor = await testAccount.read(`/api/v1/debtors/${invoice.debtor_id}`)
  matches(t, debtor, { balances: [], updated_at: '2026-11-25T08:00:00.000Z' })
})

t.test('each partial payment pauses reminders for a week', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: invoice_id } = await testAccount.createInvoice()
  await testAccount.create(PAYMENTS, { invoice_id, amount: 1, currency: 'EUR' })
  matches(t, await testAccount.read(`/api/v1/invoices/${invoice_id}`), {
    status: 'partially_paid',
    amount_due: 9999,
    paid_at: null,
    chasing: { status: 'paused', next_action_at: '2026-11-28T10:15:00.000Z' },
  })
  testAccount.backend.now = new Date('2026-11-22T00:00:00.000Z')
  await testAccount.create(PAYMENTS, { invoice_id, amount: 1, currency: 'EUR' })
  matches(t, await testAccount.read(`/api/v1/invoices/${invoice_id}`), {
    chasing: { next_action_at: '2026-11-29T00:00:00.000Z', blocked_reason: 'payment_received' },
  })
})

t.test(
  'a payment can be allocated to several invoices; the surplus stays on account',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const a = await testAccount.createInvoice()
    const b = await testAccount.createInvoice({ debtor_id: a.debtor_id })
    const payment = await testAccount.create(PAYMENTS, {
      amount: 15_500,
      currency: 'EUR',
      allocations: [
        { invoice_id: b.id, amount: 10_000 },
        { invoice_id: a.id, amount: 5_000 },
      ],
    })
    matches(t, payment, {
      debtor_id: a.debtor_id,
      unapplied_amount: 500,
      allocations: [{ invoice_id: b.id }, { invoice_id: a.id }],
      effects: {
        invoices: [
          { id: b.id, status: 'paid', amount_due: 0 },
          { id: a.id, status: 'partially_paid', amount_due: 5_000 },
        ],
      },
    })
    const { balances } = await testAccount.read(`/api/v1/debtors/${a.debtor_id}`)
    matches(t, balances, [{ outstanding: 5_000, unapplied: 500 }])
  },
)

t.test('a payment on account has no allocations', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: debtor_id } = await testAccount.createDebtor()
  const payment = await testAccount.create(PAYMENTS, { debtor_id, amount: 7, currency: 'JPY' })
  matches(t, payment, {
    debtor_id,
    allocations: [],
    unapplied_amount: 7,
    effects: { invoices: [] },
  })
})

t.test('a surplus is rejected, or kept on account if the caller allows it', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: invoice_id } = await testAccount.createInvoice()
  const body = { invoice_id, amount: 10_001, currency: 'EUR' }
  const { status, json } = await testAccount.post(PAYMENTS, body)
  t.equal(status, 422)
  matches(t, json, {
    code: 'payment_exceeds_balance',
    amount_due: 10_000,
    errors: [{ pointer: '/amount', code: 'payment_exceeds_balance' }],
  })
  matches(t, await testAccount.create(PAYMENTS, { ...body, allow_overpayment: true }), {
    allocations: [{ amount: 10_000 }],
    unapplied_amount: 1,
  })
  matches(t, (await testAccount.post(PAYMENTS, body)).json, {
    code: 'payment_exceeds_balance',
    amount_due: 0,
  })
  matches(t, await testAccount.create(PAYMENTS, { ...body, allow_overpayment: true }), {
    allocations: [],
    unapplied_amount: 10_001,
    effects: { invoices: [{ id: invoice_id, status: 'paid', amount_due: 0 }] },
  })
})

t.test(
  'every allocation that exceeds its invoice is reported, or reduced if overpayment is allowed',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const a = await testAccount.createInvoice()
    const b = await testAccount.createInvoice({ debtor_id: a.debtor_id })
    const body = {
      amount: 30_000,
      currency: 'EUR',
      allocations: [
        { invoice_id: a.id, amount: 10_001 },
        { invoice_id: b.id, amount: 10_002 },
      ],
    }
    matches(t, (await testAccount.post(PAYMENTS, body)).json, {
      code: 'payment_exceeds_balance',
      amount_due: 10_000,
      errors: [{ pointer: '/allocations/0/amount' }, { pointer: '/allocations/1/amount' }],
    })
    const payment = await testAccount.create(PAYMENTS, { ...body, allow_overpayment: true })
    matches(t, payment, {
      unapplied_amount: 10_000,
      allocations: [{ amount: 10_000 }, { amount: 10_000 }],
    })
  },
)

t.test('a rejected payment changes nothing', async (t) => {
  const testAccount = await openTestAccount(t)
  const a = await testAccount.createInvoice()
  await testAccount.create(PAYMENTS, {
    invoice_id: a.id,
    amount: 1,
    currency: 'EUR',
    external_id: 'x',
  })
  const before = (await testAccount.get(`/api/v1/invoices/${a.id}`)).text
  const body = { invoice_id: a.id, amount: 1, currency: 'EUR', external_id: 'x' }
  const { status, json } = await testAccount.post(PAYMENTS, body)
  t.equal(status, 409)
  matches(t, json, { code: 'duplicate_external_id', existing_id: /^pay_/ })
  t.equal((await testAccount.get(`/api/v1/invoices/${a.id}`)).text, before)
})

// Regression: such a payment got 422 `payment_exceeds_balance`, with the advice to send `allow_overpayment: true`.
t.test('a repeated payment in full is recognized by its external id', async (t) => {
  const testAccount = await openTestAccount(t)
  const invoice = await testAccount.createInvoice({ amount: 500 })
  const { id: invoice_id, debtor_id } = invoice
  const rest = { amount: 500, currency: 'EUR' }
  const first = await testAccount.create(PAYMENTS, { ...rest, invoice_id, external_id: 'x' })
  for (const target of [
    { invoice_id },
    { allocations: [{ invoice_id, amount: 500 }] },
    { invoice_id, allow_overpayment: true },
    { debtor_id },
  ]) {
    const body = { ...rest, ...target, external_id: 'x' }
    matches(t, await testAccount.post(PAYMENTS, body), {
      status: 409,
      json: { code: 'duplicate_external_id', existing_id: first.id },
    })
  }
  for (const external_id of ['y', null]) {
    const body = { ...rest, invoice_id, external_id }
    matches(t, await testAccount.post(PAYMENTS, body), {
      status: 422,
      json: { code: 'payment_exceeds_balance' },
    })
  }
  const { amount_paid, revision } = await testAccount.read(`/api/v1/invoices/${invoice_id}`)
  t.strictSame({ amount_paid, revision }, { amount_paid: 500, revision: 2 })
})

t.test('allocations that exceed the payment, or repeat an invoice, are rejected', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: invoice_id } = await testAccount.createInvoice()
  const beyond = { amount: 5, currency: 'EUR', allocations: [{ invoice_id, amount: 6 }] }
  matches(t, (await testAccount.post(PAYMENTS, beyond)).json, {
    code: 'allocation_exceeds_payment',
    errors: [{ pointer: '/allocations' }],
  })
  const twice = [
    { invoice_id, amount: 1 },
    { invoice_id, amount: 1 },
  ]
  matches(
    t,
    (await testAccount.post(PAYMENTS, { amount: 5, currency: 'EUR', allocations: twice })).json,
    {
      code: 'validation_failed',
      errors: [{ pointer: '/allocations/1/invoice_id' }],
    },
  )
})

t.test('a payment cannot be allocated to invoices of two debtors', async (t) => {
  const testAccount = await openTestAccount(t)
  const allocations = [
    { invoice_id: (await testAccount.createInvoice()).id, amount: 1 },
    { invoice_id: (await testAccount.createInvoice()).id, amount: 1 },
  ]
  matches(t, (await testAccount.post(PAYMENTS, { amount: 5, currency: 'EUR', allocations })).json, {
    code: 'validation_failed',
    errors: [{ pointer: '/allocations/1/invoice_id' }],
  })
})

t.test('a currency other than the invoice’s is rejected, and the error names both', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: invoice_id } = await testAccount.createInvoice()
  const { status, json } = await testAccount.post(PAYMENTS, {
    invoice_id,
    amount: 1,
    currency: 'USD',
  })
  t.equal(status, 422)
  matches(t, json, {
    code: 'currency_mismatch',
    expected: 'EUR',
    actual: 'USD',
    errors: [{ pointer: '/currency', code: 'currency_mismatch' }],
  })
})

t.test('a draft and a void invoice cannot be paid; a written-off one can', async (t) => {
  const testAccount = await openTestAccount(t)
  const createWithStatus = async (status: 'void' | 'written_off') => {
    const { id } = await testAccount.createInvoice()
    await testAccount.backend.database.transaction((tx) =>
      tx
        .updateTable('invoices')
        .set({ status, ...nextRevision(tx, testAccount.backend.now.toISOString()) })
        .where('id', '=', id)
        .execute(),
    )
    return id
  }
  for (const [status, id] of [
    ['draft', (await testAccount.createInvoice({ status: 'draft' })).id],
    ['void', await createWithStatus('void')],
  ]) {
    const response = await testAccount.post(PAYMENTS, {
      invoice_id: id,
      amount: 1,
      currency: 'EUR',
    })
    t.equal(response.status, 409)
    matches(t, response.json, { code: 'invoice_not_payable', invoice_status: status, status: 409 })
  }
  const invoice_id = await createWithStatus('written_off')
  await testAccount.create(PAYMENTS, { invoice_id, amount: 4000, currency: 'EUR' })
  matches(t, await testAccount.read(`/api/v1/invoices/${invoice_id}`), {
    status: 'written_off',
    amount_due: 6000,
  })
  await testAccount.create(PAYMENTS, { invoice_id, amount: 6000, currency: 'EUR' })
  matches(t, await testAccount.read(`/api/v1/invoices/${invoice_id}`), {
    status: 'paid',
    amount_due: 0,
  })
})

t.test('invoices and debtors of other accounts are not found', async (t) => {
  const testAccount = await openTestAccount(t)
  const own = await testAccount.createInvoice()
  const foreign = await (await testAccount.otherAccount()).createInvoice()
  const money = { amount: 5, currency: 'EUR' }
  for (const invoice_id of [foreign.id, 'x', own.debtor_id]) {
    const { status, json } = await testAccount.post(PAYMENTS, { ...money, invoice_id })
    t.equal(status, 422)
    matches(t, json, { code: 'invoice_not_found', errors: [{ pointer: '/invoice_id' }] })
  }
  const allocations = [foreign.id, own.id, 'x'].map((invoice_id) => ({ invoice_id, amount: 1 }))
  matches(t, (await testAccount.post(PAYMENTS, { ...money, allocations })).json, {
    code: 'invoice_not_found',
    errors: [{ pointer: '/allocations/0/invoice_id' }, { pointer: '/allocations/2/invoice_id' }],
  })
  matches(t, (await testAccount.post(PAYMENTS, { ...money, debtor_id: foreign.debtor_id })).json, {
    code: 'debtor_not_found',
    errors: [{ pointer: '/debtor_id' }],
  })
})

t.test('received_on is between 2000 and tomorrow in the account’s time zone', async (t) => {
  const testAccount = await openTestAccount(t, { timezone: 'Pacific/Kiritimati' })
  const { id: debtor_id } = await testAccount.createDebtor()
  const receivedOn = async (received_on: string) => {
    const response = await testAccount.post(PAYMENTS, {
      debtor_id,
      amount: 1,
      currency: 'EUR',
      received_on,
    })
    return response.json['errors'] ?? response.status
  }
  t.equal(await receivedOn('2026-11-23'), 201)
  matches(t, await receivedOn('2026-11-24'), [{ pointer: '/received_on', code: 'not_in_future' }])
  const body = { debtor_id, amount: 1, currency: 'EUR' }
  t.equal((await testAccount.create(PAYMENTS, body)).received_on, '2026-11-22')
  t.equal(await receivedOn('2000-01-01'), 201)
  matches(t, await receivedOn('1999-12-31'), [{ pointer: '/received_on', code: 'out_of_range' }])
})

t.test(
  'every invalid field is reported; an invoice, allocations or a debtor is required',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { status, json } = await testAccount.post(PAYMENTS, {
      amount: null,
      currency: 'XXX',
      invoice_id: 'inv_1',
      allocations: [{ invoice_id: null, amount: null, note: 'x' }],
      debtor_id: 'deb_1',
      allow_overpayment: 'yes',
      received_on: '2027-01-01',
      method: 'barter',
      reference: 'x'.repeat(141),
      ammount: 5,
    })
    t.equal(status, 422)
    const errors = Array.isArray(json['errors']) ? json['errors'] : []
    t.strictSame(errors.map(({ pointer, code }) => `${pointer} ${code}`).sort(), [
      '/allocations conflicting_field',
      '/allocations/0/amount invalid_type',
      '/allocations/0/invoice_id required',
      '/allocations/0/note unknown_field',
      '/allow_overpayment invalid_type',
      '/ammount unknown_field',
      '/amount invalid_type',
      '/currency unsupported_currency',
      '/debtor_id conflicting_field',
      '/method invalid_enum',
      '/received_on not_in_future',
      '/reference too_long',
    ])
    matches(
      t,
      (await testAccount.post(PAYMENTS, { amount: 1, currency: 'EUR', allocations: null })).json,
      {
        errors: [{ pointer: '/invoice_id', code: 'required' }],
      },
    )
    matches(
      t,
      (await testAccount.post(PAYMENTS, { amount: 1, currency: 'EUR', allocations: [] })).json,
      {
        errors: [{ pointer: '/allocations', code: 'too_short' }],
      },
    )
  },
)

t.test('payments are found by each filter', async (t) => {
  const testAccount = await openTestAccount(t)
  const invoice = await testAccount.createInvoice()
  const body = { invoice_id: invoice.id, amount: 1, currency: 'EUR', received_on: '2026-11-01' }
  const a = await testAccount.create(PAYMENTS, { ...body, external_id: 'x' })
  const b = await testAccount.create(PAYMENTS, {
    debtor_id: invoice.debtor_id,
    amount: 1,
    currency: 'USD',
  })
  const ids = async (query: string) =>
    (await testAccount.read(`${PAYMENTS}?${query}`)).data.map(({ id }: { id: string }) => id)
  t.strictSame(await ids(`invoice_id=${invoice.id}`), [a.id])
  t.strictSame(await ids(`debtor_id=${invoice.debtor_id}`), [b.id, a.id])
  t.strictSame(await ids('external_id=x'), [a.id])
  t.strictSame(await ids('currency=USD'), [b.id])
  t.strictSame(await ids('received_since=2026-11-01&received_before=2026-11-02'), [a.id])
  t.strictSame(await ids(`idempotency_key=${b.idempotency_key}`), [b.id])
  // Regression: a client that sent the key in quotes, and looked it up in the same form, did not find its payment.
  t.strictSame(await ids(`idempotency_key=%22${b.idempotency_key}%22`), [b.id])
  const others = await testAccount.otherAccount()
  t.strictSame((await others.read(`${PAYMENTS}?idempotency_key=${b.idempotency_key}`)).data, [])
  t.strictSame((await others.read(`${PAYMENTS}?invoice_id=${invoice.id}`)).data, [])
})

t.test(
  'a payment that was received on the latest allowed date is found, in any order of the list',
  async (t) => {
    // In this time zone it is already the 22nd.
    const now = '2026-11-21T10:30:00.000Z'
    const testAccount = await openTestAccount(t, { timezone: 'Pacific/Kiritimati' })
    testAccount.backend.now = new Date(now)
    const { id } = await testAccount.createDebtor()
    const pay = (received_on: string) =>
      testAccount.create(PAYMENTS, { debtor_id: id, amount: 1, currency: 'EUR', received_on })
    const early = await pay('2026-11-10')
    const late = await pay('2026-11-23')
    const find = async (query: string) =>
      (await testAccount.read(`${PAYMENTS}?${query}`)).data.map((row: { id: string }) => row.id)
    for (const sort of ['created_at', '-created_at', 'updated_at', '-updated_at']) {
      t.strictSame(await find(`received_since=2026-11-23&sort=${sort}`), [late.id], sort)
      t.strictSame(await find(`received_since=2026-11-24&sort=${sort}`), [], sort)
      const both = await find(`received_since=2026-11-10&created_since=${now}&sort=${sort}`)
      t.strictSame(both.toSorted(), [early.id, late.id].toSorted(), sort)
      const later = `received_since=2026-11-10&created_since=2026-11-21T10:30:00.001Z&sort=${sort}`
      t.strictSame(await find(later), [], sort)
    }
  },
)
