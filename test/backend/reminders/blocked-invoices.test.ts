// A person's decision to block an invoice remains in force after disputes and reversed payments. After a
// reminder that may have arrived, the next one is delayed.
//
// The blocked reason `history` means that an invoice was overdue when it was created, and that its creator
// set `chase_if_overdue` to false.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import {
  disputeInvoice,
  finalizeInvoice,
  resolveDispute,
  resumeInvoice,
} from '../../../backend/invoices/actions.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'

async function payAndReverse(engine: Engine, { id }: Json, amounts: readonly number[]) {
  const { testAccount, deps } = engine
  const actionContext = { actor: OPERATOR, now: deps.clock() }
  const payments: Json[] = []
  for (const amount of amounts) {
    const body = { invoice_id: id, currency: 'EUR', amount }
    payments.push(await testAccount.create('/api/v1/payments', body))
  }
  for (const payment of payments.reverse()) {
    await testAccount.backend.database.transaction((tx) =>
      reversePayment(tx, testAccount.accountId, payment.id, 'it bounced', actionContext),
    )
  }
}

const chasingOf = async (engine: Engine, { id }: Json) => {
  const { status, blocked_reason } = (await engine.testAccount.read(`/api/v1/invoices/${id}`))
    .chasing
  return [status, blocked_reason]
}

async function resume(engine: Engine, { id }: Json): Promise<void> {
  const { testAccount, deps } = engine
  const actionContext = { actor: OPERATOR, now: deps.clock() }
  await testAccount.backend.database.transaction((tx) =>
    resumeInvoice(tx, testAccount.accountId, id, actionContext),
  )
}

for (const [amounts, payments] of [
  [[10_000], 'a full payment is'],
  [[4000, 6000], 'two partial payments are'],
] as const) {
  t.test(`an invoice stays blocked as history after ${payments} reversed`, async (t) => {
    const engine = await startEngine(t)
    engine.testAccount.backend.now = new Date('2026-11-24T06:00:00.000Z')
    const invoice = await engine.createInvoice('2026-11-01', { chase_if_overdue: false })
    await payAndReverse(engine, invoice, amounts)
    t.strictSame(await chasingOf(engine, invoice), ['stopped', 'history'])
    await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
    await engine.planAndSendAt('2027-01-12T08:00:00.000Z')
    t.equal(engine.smtp.mails.length, 0)
    await resume(engine, invoice)
    await engine.planAndSendAt('2027-01-12T09:00:00.000Z')
    t.equal(engine.smtp.mails.length, 1)
  })

  t.test(`a rejection stays in force after ${payments} reversed`, async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.createInvoiceAwaitingApproval()
    await engine.decide({ approve: false, reason: 'they are moving' })
    await payAndReverse(engine, invoice, amounts)
    t.strictSame(await chasingOf(engine, invoice), ['paused', 'approval_rejected'])
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    await engine.planAndSendAt('2027-01-12T08:00:00.000Z')
    t.strictSame((await engine.messageLog()).slice(2), ['firm:suppressed'])
  })
}

t.test(
  'an invoice that was past due as a draft stays blocked as history when finalized',
  async (t) => {
    // Regression: finalizing started reminders, although the draft was created with `chase_if_overdue: false`.
    const engine = await startEngine(t)
    const { testAccount, deps } = engine
    testAccount.backend.now = new Date('2026-11-24T06:00:00.000Z')
    const draft = await engine.createInvoice('2026-11-01', {
      status: 'draft',
      chase_if_overdue: false,
    })
    await testAccount.backend.database.transaction((tx) =>
      finalizeInvoice(tx, testAccount.accountId, draft.id, { actor: OPERATOR, now: deps.clock() }),
    )
    t.strictSame(await chasingOf(engine, draft), ['stopped', 'history'])
    await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
    t.equal(engine.smtp.mails.length, 0)
    await resume(engine, draft)
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.equal(engine.smtp.mails.length, 1)
  },
)

async function dispute(engine: Engine, { id }: Json): Promise<void> {
  const { testAccount, deps } = engine
  const actionContext = { actor: OPERATOR, now: deps.clock() }
  await testAccount.backend.database.transaction((tx) =>
    disputeInvoice(tx, testAccount.accountId, id, 'wrong price', actionContext),
  )
}

async function resolve(engine: Engine, { id }: Json): Promise<void> {
  const { testAccount, deps } = engine
  const actionContext = { actor: OPERATOR, now: deps.clock() }
  await testAccount.backend.database.transaction((tx) =>
    resolveDispute(tx, testAccount.accountId, id, 'a new price', actionContext),
  )
}

// Regression: resolving a dispute resumed chasing, even if something else had blocked it before.
for (const isPaid of [false, true]) {
  const during = isPaid ? ', during which a payment is reversed' : ''
  const payDuringDispute = (engine: Engine, invoice: Json) =>
    isPaid ? payAndReverse(engine, invoice, [10_000]) : undefined

  t.test(`an invoice stays blocked as history after a dispute${during}`, async (t) => {
    const engine = await startEngine(t)
    engine.testAccount.backend.now = new Date('2026-11-24T06:00:00.000Z')
    const invoice = await engine.createInvoice('2026-11-01', { chase_if_overdue: false })
    await dispute(engine, invoice)
    await payDuringDispute(engine, invoice)
    t.strictSame(await chasingOf(engine, invoice), ['paused', 'disputed'])
    await resolve(engine, invoice)
    t.strictSame(await chasingOf(engine, invoice), ['stopped', 'history'])
    await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
    t.equal(engine.smtp.mails.length, 0)
    await resume(engine, invoice)
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.equal(engine.smtp.mails.length, 1)
  })

  t.test(`a rejection stays in force after a dispute${during}`, async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.createInvoiceAwaitingApproval()
    await engine.decide({ approve: false, reason: 'they are moving' })
    for (let round = 0; round < 2; round++) {
      await dispute(engine, invoice)
      await payDuringDispute(engine, invoice)
      await resolve(engine, invoice)
      t.strictSame(await chasingOf(engine, invoice), ['paused', 'approval_rejected'])
    }
    await engine.planAndSendAt('2027-01-12T08:00:00.000Z')
    t.strictSame((await engine.messageLog()).slice(2), ['firm:suppressed'])
  })
}

t.test('a dispute neither shortens nor prolongs the pause after a payment', async (t) => {
  const engine = await startEngine(t)
  engine.testAccount.backend.now = new Date('2026-11-24T06:00:00.000Z')
  const [paidBefore, paidDuring, reversed] = await Promise.all(
    [1, 2, 3].map(() => engine.createInvoice('2026-11-13')),
  )
  const partialPaymentOf = ({ id }: Json) => ({ invoice_id: id, currency: 'EUR', amount: 4000 })
  await engine.testAccount.create('/api/v1/payments', partialPaymentOf(paidBefore))
  for (const invoice of [paidBefore, paidDuring, reversed]) await dispute(engine, invoice)
  await engine.testAccount.create('/api/v1/payments', partialPaymentOf(paidDuring))
  await payAndReverse(engine, reversed, [4000])
  for (const invoice of [paidBefore, paidDuring, reversed]) await resolve(engine, invoice)
  t.strictSame(await chasingOf(engine, paidBefore), ['paused', 'payment_received'])
  t.strictSame(await chasingOf(engine, paidDuring), ['paused', 'payment_received'])
  t.strictSame(await chasingOf(engine, reversed), ['active', null])
  await engine.planAndSendAt('2026-11-27T08:00:00.000Z')
  t.equal(engine.smtp.mails.length, 1, 'the other two invoices are paused')
  await dispute(engine, paidBefore)
  await engine.planAndSendAt('2026-12-02T08:00:00.000Z')
  await resolve(engine, paidBefore)
  t.strictSame(await chasingOf(engine, paidBefore), ['active', null], 'the pause has ended')
})

t.test(
  'the next stage is sent at least five days after a message that may have arrived',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-13')
    engine.smtp.failAt('data', 'drop', 2)
    await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:failed'])
    await engine.planAndSendAt('2026-11-25T08:00:00.000Z')
    await engine.planAndSendAt('2026-11-27T08:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:failed'])
    await engine.planAndSendAt('2026-11-30T08:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:failed', 'reminder:sent'])
  },
)

t.test(
  'on a day on which a message may have arrived, no other message is sent to the debtor',
  async (t) => {
    const engine = await startEngine(t)
    const first = await engine.createInvoice('2026-11-19')
    engine.smtp.failAt('data', 'drop', 1)
    await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
    await engine.createInvoice('2026-11-18', { debtor_id: first.debtor_id })
    const body = { invoice_id: first.id, currency: 'EUR', amount: 10_000 }
    await engine.testAccount.create('/api/v1/payments', body)
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.equal(engine.smtp.mails.length, 1)
    await engine.planAndSendAt('2026-11-25T08:00:00.000Z')
    t.equal(engine.smtp.mails.length, 2)
  },
)

t.test('after a full payment is reversed, the last stage is sent again', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-19')
  await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
  await payAndReverse(engine, invoice, [10_000])
  await engine.planAndSendAt('2026-12-01T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:sent', 'friendly:sent'])
})
