import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import {
  disputeInvoice,
  finaliseInvoice,
  resolveDispute,
  voidInvoice,
  writeOffInvoice,
} from '../../../backend/invoices/acts.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import type { Json } from '../../fixtures/books/books.ts'
import { openWebhooks } from '../../fixtures/books/webhooks.ts'
import { faultsOf } from '../../fixtures/contract/schema.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'

const ACTS = { finaliseInvoice, voidInvoice, writeOffInvoice, disputeInvoice, resolveDispute }

async function openDesk(t: Test) {
  const webhooks = await openWebhooks(t)
  const { books } = webhooks
  const { database } = books.backend
  const act = () => ({ actor: OPERATOR, now: books.backend.now })
  await webhooks.endpoint('https://example.com/hook')
  return {
    books,
    invoice: (fields?: object) => books.invoice(fields),
    read: (id: string): Promise<Json> => books.read(`/api/v1/invoices/${id}`),
    pay: (invoice: Json, amount: number, fields: object = {}): Promise<Json> =>
      books.create('/api/v1/payments', {
        ...{ amount, currency: 'EUR', invoice_id: invoice.id, ...fields },
      }),
    finalise: (id: string) =>
      database.transaction((tx) => finaliseInvoice(tx, books.accountId, id, act())),
    perform: (name: Exclude<keyof typeof ACTS, 'finaliseInvoice'>, id: string, reason = 'Agreed') =>
      database.transaction((tx) => ACTS[name](tx, books.accountId, id, reason, act())),
    reverse: (id: string, reason = 'The cheque bounced') =>
      database.transaction((tx) => reversePayment(tx, books.accountId, id, reason, act())),
    /** Type and data of each event since the last look. */
    async events(): Promise<Json[]> {
      const rows = await database.read
        .selectFrom('webhook_events')
        .selectAll()
        .orderBy('id')
        .execute()
      await database.transaction(async (tx) => {
        await tx.deleteFrom('webhook_deliveries').execute()
        await tx.deleteFrom('webhook_events').execute()
      })
      return rows.map(({ body }) => JSON.parse(body))
    },
    lastAudit: () =>
      database.read
        .selectFrom('audit_log')
        .selectAll()
        .orderBy('id', 'desc')
        .limit(1)
        .executeTakeFirstOrThrow(),
  }
}

t.test('a draft is finalised once; its number and dates stay', async (t) => {
  const desk = await openDesk(t)
  const draft = await desk.invoice({ status: 'draft' })
  await desk.events()
  await desk.finalise(draft.id)
  const opened = await desk.read(draft.id)
  matches(t, opened, {
    status: 'open',
    number: draft.number,
    due_date: draft.due_date,
    chasing: { status: 'active' },
  })
  matches(t, await desk.events(), [
    { type: 'invoice.opened', data: { object: opened, previous: { status: 'draft' } } },
  ])
  matches(t, await desk.lastAudit(), { action: 'invoice.finalised', subject_id: draft.id })
  const debtor = await desk.books.read(`/api/v1/debtors/${draft.debtor_id}`)
  matches(t, debtor.balances, [{ outstanding: 10_000 }])
  await rejectsWith(t, desk.finalise(draft.id), {
    code: 'invoice_state_conflict',
    status: 409,
    members: { invoice_status: 'open' },
    message: `Invoice ${draft.number} is open: it cannot be finalised.`,
  })
  await rejectsWith(t, desk.finalise('inv_none'), { code: 'not_found' })
})

t.test('an invoice without payments is voided, for ever', async (t) => {
  const desk = await openDesk(t)
  const [open, paidOn] = [await desk.invoice(), await desk.invoice()]
  const draft = await desk.invoice({ status: 'draft' })
  await desk.pay(paidOn, 1000)
  const message = await desk.books.message([open])
  await desk.events()
  await desk.perform('voidInvoice', open.id, 'Sent twice')
  await desk.perform('voidInvoice', draft.id)
  const voided = await desk.read(open.id)
  matches(t, voided, { status: 'void', voided_at: String, chasing: { status: 'stopped' } })
  const [event] = await desk.events()
  matches(t, event, {
    type: 'invoice.voided',
    data: { object: voided, previous: { status: 'open' } },
  })
  const { data: messages } = await desk.books.read('/api/v1/messages')
  matches(t, messages, [{ id: message, status: 'cancelled' }])
  await rejectsWith(t, desk.perform('voidInvoice', open.id), { code: 'invoice_state_conflict' })
  await rejectsWith(t, desk.perform('voidInvoice', paidOn.id), {
    code: 'invoice_state_conflict',
    message: /is partially paid, and something was paid on it: it cannot be voided/,
  })
  matches(
    t,
    await desk.books.post('/api/v1/payments', {
      ...{ amount: 1, currency: 'EUR', invoice_id: open.id },
    }),
    { status: 409, json: { code: 'invoice_not_payable' } },
  )
})

t.test('what is written off is chased no more and can still be paid', async (t) => {
  const desk = await openDesk(t)
  const invoice = await desk.invoice()
  await desk.pay(invoice, 1000)
  await desk.perform('writeOffInvoice', invoice.id, 'Bankrupt')
  matches(t, await desk.read(invoice.id), {
    status: 'written_off',
    amount_due: 9000,
    chasing: { status: 'stopped', blocked_reason: null },
  })
  matches(t, JSON.parse((await desk.lastAudit()).detail), { reason: 'Bankrupt', number: /INV/ })
  const payment = await desk.pay(invoice, 9000)
  matches(t, await desk.read(invoice.id), { status: 'paid', amount_due: 0 })
  await desk.reverse(payment.id)
  matches(
    t,
    await desk.read(invoice.id),
    {
      ...{ status: 'written_off', amount_due: 9000, paid_at: null },
      chasing: { status: 'stopped' },
    },
    'given up again',
  )
  await rejectsWith(t, desk.perform('writeOffInvoice', invoice.id), {
    code: 'invoice_state_conflict',
  })
})

t.test('a dispute holds the reminders until it is resolved', async (t) => {
  const desk = await openDesk(t)
  const invoice = await desk.invoice()
  await desk.books.message([invoice], {
    status: 'awaiting_approval',
    approval_required: 1,
    approval_status: 'pending',
  })
  await desk.events()
  await desk.perform('disputeInvoice', invoice.id, 'They say it never arrived')
  matches(t, (await desk.read(invoice.id)).chasing, {
    status: 'paused',
    blocked_reason: 'disputed',
  })
  matches(t, (await desk.books.read('/api/v1/messages')).data, [{ status: 'cancelled' }])
  await rejectsWith(t, desk.perform('disputeInvoice', invoice.id), {
    message: /is open and disputed: it cannot be disputed/,
    members: { chasing_blocked_reason: 'disputed' },
  })
  await desk.pay(invoice, 1000)
  matches(
    t,
    (await desk.read(invoice.id)).chasing,
    { blocked_reason: 'disputed' },
    'a part settles nothing',
  )
  await desk.perform('resolveDispute', invoice.id)
  matches(
    t,
    (await desk.read(invoice.id)).chasing,
    { status: 'paused', blocked_reason: 'payment_received' },
    'the pause after the payment remains',
  )
  const types = (await desk.events()).map(({ type }) => type)
  t.strictSame(
    types.filter((type) => type.includes('dispute')),
    ['invoice.disputed', 'invoice.dispute_resolved'],
  )
  await rejectsWith(t, desk.perform('resolveDispute', invoice.id), {
    code: 'invoice_state_conflict',
  })
})

t.test('a dispute outlives a payment that is reversed, unless it was resolved', async (t) => {
  const desk = await openDesk(t)
  const chasingOf = async (id: string) => (await desk.read(id)).chasing
  const invoice = await desk.invoice()
  await desk.perform('disputeInvoice', invoice.id, 'They say it never arrived')
  const payment = await desk.pay(invoice, 10_000)
  matches(t, await chasingOf(invoice.id), { status: 'stopped', blocked_reason: null })
  await desk.reverse(payment.id, 'The direct debit was charged back')
  matches(t, await desk.read(invoice.id), {
    status: 'open',
    chasing: { status: 'paused', blocked_reason: 'disputed', next_action_at: null },
  })
  await desk.perform('resolveDispute', invoice.id)
  matches(t, await chasingOf(invoice.id), { status: 'active', blocked_reason: null })
  const again = await desk.pay(invoice, 10_000)
  await desk.reverse(again.id)
  matches(t, await chasingOf(invoice.id), { status: 'active', blocked_reason: null })
})

t.test('a reversed payment is owed again, once', async (t) => {
  const desk = await openDesk(t)
  const invoice = await desk.invoice()
  const first = await desk.pay(invoice, 4000)
  const second = await desk.pay(invoice, 7000, { allow_overpayment: true })
  t.equal((await desk.read(invoice.id)).status, 'paid')
  await desk.events()
  await desk.reverse(second.id)
  const reopened = await desk.read(invoice.id)
  matches(t, reopened, {
    ...{ status: 'partially_paid', amount_paid: 4000, amount_due: 6000, paid_at: null },
    chasing: { status: 'active', blocked_reason: null },
  })
  const { data: payments } = await desk.books.read(`/api/v1/payments?invoice_id=${invoice.id}`)
  const reversed = payments.find((payment: Json) => payment.id === second.id)
  matches(t, reversed, {
    ...{ status: 'reversed', amount: 7000, unapplied_amount: 1000 },
    allocations: [{ invoice_id: invoice.id, amount: 6000 }],
  })
  const events = await desk.events()
  matches(t, events, [
    {
      type: 'invoice.reopened',
      data: { object: reopened, previous: { status: 'paid', amount_due: 0 } },
    },
    { type: 'payment.reversed', data: { object: reversed, previous: { status: 'recorded' } } },
  ])
  t.strictSame(faultsOf('InvoiceEvent', events[0]), [])
  t.strictSame(faultsOf('PaymentEvent', events[1]), [])
  matches(t, await desk.lastAudit(), { action: 'payment.reversed', subject_id: second.id })
  const debtor = await desk.books.read(`/api/v1/debtors/${invoice.debtor_id}`)
  matches(t, debtor.balances, [{ outstanding: 6000, unapplied: 0 }], 'nor is the surplus there')
  await rejectsWith(t, desk.reverse(second.id), {
    code: 'payment_already_reversed',
    status: 409,
    members: { reversed_at: reversed.updated_at },
  })
  await desk.reverse(first.id)
  matches(t, await desk.read(invoice.id), { status: 'open', amount_paid: 0, amount_due: 10_000 })
  t.strictSame(
    (await desk.events()).map(({ type }) => type),
    ['invoice.reopened', 'payment.reversed'],
  )
})

t.test('an act without a reason, and one of another account, changes nothing', async (t) => {
  const desk = await openDesk(t)
  const invoice = await desk.invoice()
  const payment = await desk.pay(invoice, 1000)
  const others = await desk.books.others()
  const theirs = await others.invoice()
  await desk.events()
  const noReason = { code: 'validation_failed', members: { errors: [{ pointer: '/reason' }] } }
  await rejectsWith(t, desk.perform('writeOffInvoice', invoice.id, ' '), noReason)
  await rejectsWith(t, desk.reverse(payment.id, ''), noReason)
  await rejectsWith(t, desk.perform('disputeInvoice', invoice.id, 'x'.repeat(501)), noReason)
  await rejectsWith(t, desk.perform('voidInvoice', theirs.id), { code: 'not_found' })
  await rejectsWith(t, desk.reverse('pay_none'), { code: 'not_found' })
  t.strictSame(await desk.events(), [])
  matches(t, await desk.read(invoice.id), { status: 'partially_paid' })
})
