// People allocate money on account to invoices, take allocations back, and record credits.
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { voidInvoice, writeOffInvoice } from '../../../backend/invoices/actions.ts'
import { creditInvoice } from '../../../backend/invoices/credit-invoice.ts'
import { allocatePayment, takeBackAllocation } from '../../../backend/payments/reallocation.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { faultsOf } from '../../fixtures/contract/schema.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'

async function openLedger(t: Test) {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const { accountId } = testAccount
  const { database } = testAccount.backend
  const actionContext = () => ({ actor: OPERATOR, now: testAccount.backend.now })
  await webhooks.createEndpoint('https://example.com/hook')
  const debtor = await testAccount.createDebtor()
  const pay = async (fields: object): Promise<Json> => {
    const { id } = await testAccount.create('/api/v1/payments', { currency: 'EUR', ...fields })
    return payment(id)
  }
  const payment = async (id: string): Promise<Json> => {
    const { data } = await testAccount.read('/api/v1/payments?limit=200')
    return data.find((candidate: Json) => candidate.id === id)
  }
  return {
    testAccount,
    debtor,
    pay,
    payment,
    createInvoice: (fields: object = {}): Promise<Json> =>
      testAccount.createInvoice({ debtor_id: debtor.id, ...fields }),
    read: (id: string): Promise<Json> => testAccount.read(`/api/v1/invoices/${id}`),
    balances: async () => (await testAccount.read(`/api/v1/debtors/${debtor.id}`)).balances,
    allocate: (id: string, ...amounts: readonly (readonly [Json, number])[]) => {
      const allocations = amounts.map(([{ id: invoiceId }, amount]) => ({ invoiceId, amount }))
      return database.transaction((tx) =>
        allocatePayment(tx, accountId, id, allocations, actionContext()),
      )
    },
    takeBack: (id: string, { id: invoiceId }: Json, reason = 'It was for another invoice') =>
      database.transaction((tx) =>
        takeBackAllocation(tx, accountId, id, { invoiceId, reason }, actionContext()),
      ),
    credit: ({ id }: Json, amount: number, reason = 'Billed twice') =>
      database.transaction((tx) =>
        creditInvoice(tx, accountId, id, { amount, reason }, actionContext()),
      ),
    reverse: (id: string) =>
      database.transaction((tx) =>
        reversePayment(tx, accountId, id, 'It bounced', actionContext()),
      ),
    voidInvoice: ({ id }: Json) =>
      database.transaction((tx) => voidInvoice(tx, accountId, id, 'A mistake', actionContext())),
    writeOff: ({ id }: Json) =>
      database.transaction((tx) =>
        writeOffInvoice(tx, accountId, id, 'Insolvent', actionContext()),
      ),
    /** Like `Webhooks.takeEvents`. Also checks the events against the contract. */
    async takeEvents(): Promise<Json[]> {
      const events = await webhooks.takeEvents()
      for (const event of events) {
        const schema = event.type.startsWith('invoice.') ? 'InvoiceEvent' : 'PaymentEvent'
        if (event.type !== 'debtor.created') t.strictSame(faultsOf(schema, event), [])
      }
      return events
    },
    async lastAudit() {
      const { action, subject_id, detail } = await database.read
        .selectFrom('audit_log')
        .selectAll()
        .orderBy('id', 'desc')
        .limit(1)
        .executeTakeFirstOrThrow()
      return { action, subject_id, detail: JSON.parse(detail) }
    },
    messageStatus: async (id: string) =>
      (
        await database.read
          .selectFrom('messages')
          .select('status')
          .where('id', '=', id)
          .executeTakeFirstOrThrow()
      ).status,
  }
}

t.test('money on account is allocated to several invoices', async (t) => {
  const ledger = await openLedger(t)
  const [one, two] = [await ledger.createInvoice(), await ledger.createInvoice({ amount: 4000 })]
  const before = await ledger.pay({ debtor_id: ledger.debtor.id, amount: 12_000 })
  const scheduledMessage = await ledger.testAccount.insertMessage([two])
  await ledger.takeEvents()
  const { effects } = await ledger.allocate(before.id, [one, 7000], [two, 4000])
  const after = await ledger.payment(before.id)
  matches(t, after, {
    allocations: [
      { invoice_id: one.id, amount: 7000 },
      { invoice_id: two.id, amount: 4000 },
    ],
    unapplied_amount: 1000,
    amount: 12_000,
    effects: before.effects,
    revision: 2,
  })
  t.ok(after.updated_at > before.updated_at)
  t.strictSame(effects, {
    invoices: [
      { id: one.id, status: 'partially_paid', amount_due: 3000 },
      { id: two.id, status: 'paid', amount_due: 0 },
    ],
    messages_cancelled: 1,
    messages_in_flight: [],
  })
  t.equal(await ledger.messageStatus(scheduledMessage), 'cancelled')
  const paid = await ledger.read(two.id)
  matches(t, paid, { status: 'paid', amount_paid: 4000, chasing: { status: 'stopped' } })
  const partly = await ledger.read(one.id)
  matches(t, partly, { chasing: { status: 'paused', blocked_reason: 'payment_received' } })
  matches(t, await ledger.balances(), [{ outstanding: 3000, unapplied: 1000 }])
  matches(t, await ledger.takeEvents(), [
    { type: 'invoice.partially_paid', data: { object: partly, revision: partly.revision } },
    { type: 'invoice.paid', data: { object: paid, previous: { amount_paid: 0 } } },
    {
      type: 'payment.updated',
      data: {
        object: after,
        previous: { allocations: [], unapplied_amount: 12_000, revision: 1 },
        revision: 2,
      },
    },
  ])
  t.strictSame(await ledger.lastAudit(), {
    action: 'payment.allocated',
    subject_id: before.id,
    detail: { amount: 11_000, currency: 'EUR', invoices: [one.number, two.number] },
  })
})

t.test('a payment shows its allocations in the order in which they were made', async (t) => {
  const ledger = await openLedger(t)
  const [one, two] = [await ledger.createInvoice(), await ledger.createInvoice()]
  const { id } = await ledger.pay({ debtor_id: ledger.debtor.id, amount: 9000 })
  await ledger.allocate(id, [two, 2000])
  await ledger.allocate(id, [one, 3000])
  matches(t, await ledger.payment(id), {
    allocations: [
      { invoice_id: two.id, amount: 2000 },
      { invoice_id: one.id, amount: 3000 },
    ],
  })
})

t.test('a further allocation of a payment to the same invoice is added to the first', async (t) => {
  const ledger = await openLedger(t)
  const invoice = await ledger.createInvoice()
  const { id } = await ledger.pay({
    allocations: [{ invoice_id: invoice.id, amount: 2000 }],
    amount: 9000,
  })
  await ledger.allocate(id, [invoice, 3000])
  matches(t, await ledger.payment(id), {
    allocations: [{ invoice_id: invoice.id, amount: 5000 }],
    unapplied_amount: 4000,
  })
  matches(t, await ledger.read(invoice.id), { amount_paid: 5000, amount_due: 5000 })
})

t.test('an impossible allocation is rejected and changes nothing', async (t) => {
  const ledger = await openLedger(t)
  const invoice = await ledger.createInvoice()
  const draft = await ledger.createInvoice({ status: 'draft' })
  const dollars = await ledger.createInvoice({ currency: 'USD' })
  const other = await ledger.testAccount.createInvoice()
  const foreign = await (await ledger.testAccount.otherAccount()).createInvoice()
  const { id } = await ledger.pay({ debtor_id: ledger.debtor.id, amount: 12_000 })
  const rejected = [
    [[[invoice, 10_001]], 'payment_exceeds_balance'],
    [
      [
        [invoice, 10_000],
        [draft, 1],
      ],
      'invoice_not_payable',
    ],
    [[[dollars, 1]], 'currency_mismatch'],
    [[[other, 1]], 'validation_failed'],
    [[[foreign, 1]], 'invoice_not_found'],
    [
      [
        [invoice, 1],
        [invoice, 1],
      ],
      'validation_failed',
    ],
    [
      [
        [invoice, 9000],
        [other, 3001],
      ],
      'allocation_exceeds_payment',
    ],
  ] as const
  for (const [allocations, code] of rejected) {
    await rejectsWith(t, ledger.allocate(id, ...allocations), { code })
  }
  for (const amount of [-1, 0, 0.5, Number.NaN]) {
    const members = { errors: [{ pointer: '/allocations/0/amount' }] }
    const rejection = { code: 'validation_failed', members }
    await rejectsWith(t, ledger.allocate(id, [invoice, amount]), rejection, `${amount}`)
  }
  await rejectsWith(t, ledger.allocate('pay_none', [invoice, 1]), { code: 'not_found' })
  t.strictSame((await ledger.payment(id)).allocations, [])
  matches(t, await ledger.read(invoice.id), { amount_paid: 0, status: 'open' })
  await ledger.reverse(id)
  await rejectsWith(t, ledger.allocate(id, [invoice, 1]), { code: 'payment_already_reversed' })
})

t.test(
  'after an allocation is taken back, the money is on account and the invoice is owed',
  async (t) => {
    const ledger = await openLedger(t)
    const [one, two] = [await ledger.createInvoice(), await ledger.createInvoice({ amount: 4000 })]
    const before = await ledger.pay({
      amount: 14_000,
      allocations: [
        { invoice_id: one.id, amount: 10_000 },
        { invoice_id: two.id, amount: 4000 },
      ],
    })
    await ledger.takeEvents()
    await ledger.takeBack(before.id, one)
    const after = await ledger.payment(before.id)
    matches(t, after, {
      allocations: [{ invoice_id: two.id, amount: 4000 }],
      unapplied_amount: 10_000,
      revision: 2,
    })
    const reopened = await ledger.read(one.id)
    matches(t, reopened, {
      status: 'open',
      amount_paid: 0,
      amount_due: 10_000,
      paid_at: null,
      chasing: { status: 'active' },
    })
    matches(t, await ledger.takeEvents(), [
      { type: 'invoice.reopened', data: { object: reopened, previous: { status: 'paid' } } },
      { type: 'payment.updated', data: { object: after, previous: { unapplied_amount: 0 } } },
    ])
    t.strictSame(await ledger.lastAudit(), {
      action: 'payment.allocation_taken_back',
      subject_id: before.id,
      detail: {
        amount: 10_000,
        currency: 'EUR',
        invoice: one.number,
        reason: 'It was for another invoice',
      },
    })
    matches(t, await ledger.balances(), [{ outstanding: 10_000, unapplied: 10_000 }])
    await rejectsWith(t, ledger.takeBack(before.id, one), { code: 'invoice_not_found' })
    await rejectsWith(t, ledger.takeBack(before.id, two, ' '), { code: 'validation_failed' })
    await ledger.allocate(before.id, [one, 10_000])
    matches(t, await ledger.read(one.id), { status: 'paid', amount_due: 0 })
    await ledger.reverse(before.id)
    matches(t, await ledger.balances(), [{ outstanding: 14_000, unapplied: 0 }])
  },
)

t.test('a payment is allocated to at most 100 invoices', async (t) => {
  const ledger = await openLedger(t)
  const invoices: Json[] = []
  for (let n = 0; n < 101; n++) invoices.push(await ledger.createInvoice({ amount: 100 }))
  const { id } = await ledger.pay({ debtor_id: ledger.debtor.id, amount: 20_000 })
  const [first, ...others] = invoices.map((invoice) => [invoice, 50] as const)
  const [last] = others.slice(-1)
  if (first === undefined || last === undefined) throw new Error('There are no invoices')
  await ledger.allocate(id, first, ...others.slice(0, -1))
  await rejectsWith(t, ledger.allocate(id, last), {
    code: 'validation_failed',
    members: {
      errors: [
        {
          pointer: '/allocations',
          code: 'too_long',
          detail:
            'A payment can be allocated to at most 100 invoices. This payment is already allocated to 100.',
        },
      ],
    },
  })
  await ledger.allocate(id, first)
  const { allocations, unapplied_amount } = await ledger.payment(id)
  t.equal(allocations.length, 100)
  t.equal(unapplied_amount, 20_000 - 101 * 50)
})

t.test('a debtor shows when one of its payments was last changed', async (t) => {
  const ledger = await openLedger(t)
  const { testAccount, debtor } = ledger
  const invoice = await ledger.createInvoice()
  const { id } = await ledger.pay({ debtor_id: debtor.id, amount: 10_000 })
  const changes = [
    () => ledger.allocate(id, [invoice, 4000]),
    () => ledger.takeBack(id, invoice),
    () => ledger.reverse(id),
  ]
  for (const [index, change] of changes.entries()) {
    testAccount.backend.now = new Date(`2026-11-30T0${index}:00:00.000Z`)
    await change()
    const { updated_at } = await testAccount.read(`/api/v1/debtors/${debtor.id}`)
    t.equal(updated_at, testAccount.backend.now.toISOString())
  }
})

t.test('an invoice that was paid after it was written off is written off again', async (t) => {
  const ledger = await openLedger(t)
  const invoice = await ledger.createInvoice()
  await ledger.writeOff(invoice)
  const { id } = await ledger.pay({ invoice_id: invoice.id, amount: 10_000 })
  await ledger.takeEvents()
  await ledger.reverse(id)
  const object = await ledger.read(invoice.id)
  matches(t, object, { status: 'written_off', amount_due: 10_000, paid_at: null })
  matches(t, await ledger.takeEvents(), [
    { type: 'invoice.written_off', data: { object, previous: { status: 'paid' } } },
    { type: 'payment.reversed' },
  ])
})

t.test(
  'an allocation of more than the unapplied amount is rejected with this amount',
  async (t) => {
    // Regression: the error said that the unapplied amount was the amount of the payment.
    const ledger = await openLedger(t)
    const [one, two] = [await ledger.createInvoice(), await ledger.createInvoice()]
    const { id } = await ledger.pay({ debtor_id: ledger.debtor.id, amount: 12_000 })
    await ledger.allocate(id, [one, 4000])
    await rejectsWith(t, ledger.allocate(id, [two, 8001]), {
      code: 'allocation_exceeds_payment',
      message: /8001, more than the unapplied amount of 8000/,
    })
  },
)

t.test('of two concurrent allocations of the same money, one is rejected', async (t) => {
  const ledger = await openLedger(t)
  const [one, two] = [await ledger.createInvoice(), await ledger.createInvoice()]
  const { id } = await ledger.pay({ debtor_id: ledger.debtor.id, amount: 10_000 })
  const outcomes = await Promise.allSettled([
    ledger.allocate(id, [one, 10_000]),
    ledger.allocate(id, [two, 10_000]),
  ])
  const rejected = outcomes.filter((outcome) => outcome.status === 'rejected')
  t.strictSame(
    rejected.map(({ reason }) => reason.code),
    ['allocation_exceeds_payment'],
  )
  matches(t, await ledger.balances(), [{ outstanding: 10_000, unapplied: 0 }])
})

t.test('credits reduce the amount due, down to zero', async (t) => {
  const ledger = await openLedger(t)
  const invoice = await ledger.createInvoice()
  await ledger.takeEvents()
  await ledger.credit(invoice, 2500)
  const partly = await ledger.read(invoice.id)
  matches(t, partly, {
    status: 'open',
    amount: 10_000,
    amount_paid: 0,
    amount_credited: 2500,
    amount_due: 7500,
    chasing: { status: 'active', blocked_reason: null },
  })
  matches(t, await ledger.takeEvents(), [
    {
      type: 'invoice.credited',
      data: { object: partly, previous: { amount_credited: 0, amount_due: 10_000 } },
    },
  ])
  t.strictSame(await ledger.lastAudit(), {
    action: 'invoice.credited',
    subject_id: invoice.id,
    detail: { number: invoice.number, amount: 2500, currency: 'EUR', reason: 'Billed twice' },
  })
  await rejectsWith(t, ledger.voidInvoice(invoice), {
    code: 'invoice_state_conflict',
    message: `Invoice ${invoice.number} cannot be voided, because it is open, and an amount has been credited on it.`,
  })
  const payment = await ledger.pay({ invoice_id: invoice.id, amount: 7000 })
  await ledger.takeEvents()
  await ledger.credit(invoice, 500)
  const paid = await ledger.read(invoice.id)
  matches(t, paid, {
    status: 'paid',
    amount_paid: 7000,
    amount_credited: 3000,
    amount_due: 0,
    chasing: { status: 'stopped' },
  })
  matches(t, await ledger.takeEvents(), [
    { type: 'invoice.credited', data: { object: paid, previous: { status: 'partially_paid' } } },
    { type: 'invoice.paid', data: { object: paid, previous: { amount_due: 500 } } },
  ])
  matches(t, await ledger.balances(), [])
  await rejectsWith(t, ledger.credit(invoice, 1), { code: 'invoice_state_conflict' })
  await ledger.reverse(payment.id)
  matches(t, await ledger.read(invoice.id), {
    status: 'open',
    amount_paid: 0,
    amount_credited: 3000,
    amount_due: 7000,
  })
})

t.test('a credit cannot exceed the amount due', async (t) => {
  const ledger = await openLedger(t)
  const invoice = await ledger.createInvoice()
  await ledger.pay({ invoice_id: invoice.id, amount: 4000 })
  await rejectsWith(t, ledger.credit(invoice, 6001), {
    code: 'validation_failed',
    members: {
      errors: [
        {
          pointer: '/amount',
          code: 'out_of_range',
          detail: `amount must be at most 6000, the amount due on invoice ${invoice.number}.`,
        },
      ],
    },
  })
  await rejectsWith(t, ledger.credit(invoice, 1, ' '), { code: 'validation_failed' })
  const outcomes = await Promise.allSettled([
    ledger.credit(invoice, 4000),
    ledger.credit(invoice, 4000),
  ])
  t.strictSame(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  matches(t, await ledger.read(invoice.id), { amount_credited: 4000, amount_due: 2000 })
  const draft = await ledger.createInvoice({ status: 'draft' })
  await rejectsWith(t, ledger.credit(draft, 1), { code: 'invoice_state_conflict' })
})
