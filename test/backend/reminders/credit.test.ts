// A customer whose money on account covers an invoice is not chased, even before the money is allocated.

import t from 'tap'
import { setApplyCredit } from '../../../backend/accounts/apply-credit.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { disputeInvoice, voidInvoice } from '../../../backend/invoices/actions.ts'
import { creditInvoice } from '../../../backend/invoices/credit-invoice.ts'
import { takeBackAllocation } from '../../../backend/payments/reallocation.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import { previewReminders } from '../../../backend/reminders/preview.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'

/** Before and after 08:00 on a Tuesday in Amsterdam, the time from which reminders are sent. */
const BEFORE_EIGHT = '2026-11-24T06:59:32.000Z'
const AFTER_EIGHT = '2026-11-24T07:00:02.000Z'
const A_WEEK_LATER = '2026-12-01T09:00:00.000Z'

const payOnAccount = (engine: Engine, debtorId: string, amount: number, fields = {}) =>
  engine.testAccount.create('/api/v1/payments', {
    ...{ debtor_id: debtorId, currency: 'EUR', amount },
    ...fields,
  })

async function reverse(engine: Engine, paymentId: string): Promise<void> {
  const { testAccount, deps } = engine
  const actionContext = { actor: OPERATOR, now: deps.clock() }
  await testAccount.backend.database.transaction((tx) =>
    reversePayment(tx, testAccount.accountId, paymentId, 'it bounced', actionContext),
  )
}

async function takeBack({ testAccount, deps }: Engine, paymentId: string, invoiceId: string) {
  const allocation = { invoiceId, reason: 'it was for another invoice' }
  const actionContext = { actor: OPERATOR, now: deps.clock() }
  return await testAccount.backend.database.transaction((tx) =>
    takeBackAllocation(tx, testAccount.accountId, paymentId, allocation, actionContext),
  )
}

const chasingOf = async (engine: Engine, { id }: Json) =>
  (await engine.testAccount.read(`/api/v1/invoices/${id}`)).chasing

const log = async (engine: Engine) =>
  (await engine.messages()).map(
    ({ stage, status, suppression_reason: reason }) => `${stage}:${reason ?? status}`,
  )

t.test('money on account that arrives before planning blocks the reminder', async (t) => {
  const engine = await startEngine(t)
  engine.testAccount.backend.now = new Date(BEFORE_EIGHT)
  const invoice = await engine.createInvoice('2026-11-19')
  await payOnAccount(engine, invoice.debtor_id, 10_000)
  await engine.planAndSendAt(AFTER_EIGHT)
  await engine.planAndSendAt(A_WEEK_LATER)
  t.equal(engine.smtp.mails.length, 0)
  t.strictSame(await log(engine), ['friendly:credit_on_account'])
  t.strictSame(await chasingOf(engine, invoice), {
    ...{ status: 'active', stage: null, next_stage: 'friendly', next_action_at: null },
    ...{ last_message_at: null, blocked_reason: 'credit_on_account' },
  })
})

// Regression: until the planner ran, such an invoice showed that a reminder would be sent.
t.test('an invoice that money on account covers when it is created shows this', async (t) => {
  const engine = await startEngine(t)
  engine.testAccount.backend.now = new Date(AFTER_EIGHT)
  const { id: debtor_id } = await engine.createDebtor()
  await payOnAccount(engine, String(debtor_id), 20_000)
  const due = await engine.createInvoice('2026-11-19', { debtor_id })
  const later = await engine.createInvoice('2026-12-19', { debtor_id })
  const uncovered = await engine.createInvoice('2026-12-20', { debtor_id })
  t.strictSame(
    [due, later, uncovered].map(({ chasing }) => chasing.blocked_reason),
    ['credit_on_account', 'credit_on_account', null],
  )
  await engine.planAndSendAt(AFTER_EIGHT)
  t.strictSame(await log(engine), ['friendly:credit_on_account'])
  for (const invoice of [later, uncovered]) {
    t.strictSame(await chasingOf(engine, invoice), invoice.chasing, 'the planner changes nothing')
  }
})

t.test('a payment on account cancels planned reminders in its own transaction', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-19')
  await engine.plan(AFTER_EIGHT)
  const payment = await payOnAccount(engine, invoice.debtor_id, 10_000)
  t.strictSame(payment.effects, {
    invoices: [],
    messages_cancelled: 1,
    messages_in_flight: [],
  })
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  await engine.planAndSendAt(A_WEEK_LATER)
  t.equal(engine.smtp.mails.length, 0)
  t.strictSame(await log(engine), ['friendly:cancelled', 'friendly:credit_on_account'])
})

t.test('the surplus of a payment covers other invoices, the oldest due date first', async (t) => {
  const engine = await startEngine(t)
  engine.testAccount.backend.now = new Date(BEFORE_EIGHT)
  const { id: debtor_id } = await engine.createDebtor()
  const newer = await engine.createInvoice('2026-11-18', { debtor_id })
  const older = await engine.createInvoice('2026-11-17', { debtor_id })
  const paid = await engine.createInvoice('2026-11-10', { debtor_id })
  const dollars = await engine.createInvoice('2026-11-01', { debtor_id, currency: 'USD' })
  await payOnAccount(engine, debtor_id, 25_000, {
    ...{ debtor_id: null, invoice_id: paid.id, allow_overpayment: true },
  })
  await engine.planAndSendAt(AFTER_EIGHT)
  const [mail, ...others] = engine.smtp.mails
  t.strictSame(others, [])
  matches(t, mail?.mail.text, new RegExp(`${newer.number}: €100.00`))
  matches(t, mail?.mail.text, new RegExp(`${dollars.number}: \\$100.00`))
  t.notMatch(mail?.mail.text, new RegExp(older.number))
  matches(t, mail?.mail.text, /Received on account: -€50.00\nStill to pay: €50.00/)
  const blocked = await Promise.all(
    [newer, older, dollars].map(
      async (invoice) => (await chasingOf(engine, invoice)).blocked_reason,
    ),
  )
  t.strictSame(blocked, [null, 'credit_on_account', null])
})

t.test(
  'if money on account covers a part of an invoice, the reminder demands the rest without delay',
  async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.createInvoice('2026-11-19')
    await engine.plan(AFTER_EIGHT)
    await payOnAccount(engine, invoice.debtor_id, 4000)
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.strictSame(await log(engine), ['friendly:cancelled', 'friendly:sent'])
    matches(
      t,
      engine.smtp.mails[0]?.mail.text?.replace(/\s+/g, ' '),
      containing(
        'We have received €40.00 from you that is not yet assigned to an invoice. Please pay only the remaining €60.00.',
      ),
    )
    t.equal((await engine.messages()).at(-1)?.amount_due, 6000)
  },
)

t.test('money in another currency does not cancel a reminder', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-19')
  await payOnAccount(engine, invoice.debtor_id, 4000)
  await engine.plan(AFTER_EIGHT)
  const dollars = await payOnAccount(engine, invoice.debtor_id, 4000, { currency: 'USD' })
  t.equal(dollars.effects.messages_cancelled, 0)
  t.strictSame(await log(engine), ['friendly:scheduled'])
})

t.test(
  'if a credit frees money on account for another invoice, the reminder about that is cancelled',
  async (t) => {
    const engine = await startEngine(t)
    const { backend, accountId } = engine.testAccount
    const older = await engine.createInvoice('2026-11-18')
    await engine.createInvoice('2026-11-19', { debtor_id: older.debtor_id })
    await payOnAccount(engine, older.debtor_id, 10_000)
    await engine.plan(AFTER_EIGHT)
    t.strictSame(await log(engine), ['friendly:credit_on_account', 'friendly:scheduled'])
    const credit = { amount: 10_000, reason: 'Billed twice' }
    const actionContext = { actor: OPERATOR, now: backend.now }
    await backend.database.transaction((tx) =>
      creditInvoice(tx, accountId, older.id, credit, actionContext),
    )
    t.strictSame((await log(engine)).slice(1), ['friendly:cancelled', 'friendly:credit_on_account'])
  },
)

t.test('after a reversal, chasing continues with the suppressed stage', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-13')
  await engine.planAndSendAt('2026-11-16T08:00:00.000Z')
  engine.testAccount.backend.now = new Date('2026-11-20T08:00:00.000Z')
  const { id } = await payOnAccount(engine, invoice.debtor_id, 10_000)
  await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
  t.strictSame(await log(engine), ['friendly:sent', 'reminder:credit_on_account'])
  await reverse(engine, id)
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.strictSame((await log(engine)).slice(2), ['reminder:sent'])
  t.equal(engine.smtp.mails.length, 2)
  t.equal((await chasingOf(engine, invoice)).blocked_reason, null)
})

t.test(
  'a message that deducts money on account is replaced after the payment is reversed',
  async (t) => {
    const engine = await startEngine(t)
    engine.testAccount.backend.now = new Date(BEFORE_EIGHT)
    const invoice = await engine.createInvoice('2026-11-19')
    const { id } = await payOnAccount(engine, invoice.debtor_id, 4000)
    await engine.plan(AFTER_EIGHT)
    await reverse(engine, id)
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.strictSame(await log(engine), ['friendly:cancelled', 'friendly:sent'])
    t.notMatch(engine.smtp.mails[0]?.mail.text, /account/)
  },
)

t.test(
  'voiding an older invoice makes money on account cover a newer one, and blocks its reminder',
  async (t) => {
    const engine = await startEngine(t)
    engine.testAccount.backend.now = new Date(BEFORE_EIGHT)
    const { id: debtor_id } = await engine.createDebtor()
    const older = await engine.createInvoice('2026-10-01', { debtor_id })
    const newer = await engine.createInvoice('2026-11-19', { debtor_id })
    await payOnAccount(engine, debtor_id, 10_000)
    await engine.plan(AFTER_EIGHT)
    t.strictSame(await log(engine), ['friendly:credit_on_account', 'friendly:scheduled'])
    const { testAccount, deps } = engine
    await testAccount.backend.database.transaction((tx) =>
      voidInvoice(tx, testAccount.accountId, older.id, 'a mistake', {
        ...{ actor: OPERATOR, now: deps.clock() },
      }),
    )
    await engine.send('2026-11-24T09:00:00.000Z')
    await engine.planAndSendAt('2026-11-24T09:30:00.000Z')
    t.equal(engine.smtp.mails.length, 0)
    t.strictSame((await log(engine)).slice(1), ['friendly:credit_on_account'])
    t.equal((await chasingOf(engine, newer)).blocked_reason, 'credit_on_account')
  },
)

for (const action of ['reversed', 'taken back'] as const) {
  t.test(`a reminder about the rest is cancelled when a payment is ${action}`, async (t) => {
    const engine = await startEngine(t)
    const { testAccount, deps } = engine
    testAccount.backend.now = new Date(BEFORE_EIGHT)
    const { id: debtor_id } = await engine.createDebtor()
    // Money on account covers this invoice first.
    const disputed = await engine.createInvoice('2026-11-01', { debtor_id })
    await testAccount.backend.database.transaction((tx) =>
      disputeInvoice(tx, testAccount.accountId, disputed.id, 'not delivered', {
        ...{ actor: OPERATOR, now: deps.clock() },
      }),
    )
    const { id: invoice_id } = await engine.createInvoice('2026-11-19', { debtor_id })
    const payment = await testAccount.create('/api/v1/payments', {
      ...{ invoice_id, currency: 'EUR', amount: 4000 },
    })
    await engine.plan('2026-12-02T08:00:00.000Z')
    t.strictSame(await log(engine), ['friendly:scheduled'])
    if (action === 'reversed') await reverse(engine, payment.id)
    else matches(t, (await takeBack(engine, payment.id, invoice_id)).effects.messages_cancelled, 1)
    t.equal((await log(engine))[0], 'friendly:cancelled')
    await engine.planAndSendAt('2026-12-02T09:00:00.000Z')
    t.strictSame((await log(engine)).slice(1), ['friendly:sent'])
    t.equal((await engine.messages()).at(-1)?.amount_due, 10_000)
  })
}

t.test(
  'an allocation that is taken back covers an older invoice, and cancels its reminder',
  async (t) => {
    const engine = await startEngine(t)
    engine.testAccount.backend.now = new Date(BEFORE_EIGHT)
    const { id: debtor_id } = await engine.createDebtor()
    await engine.createInvoice('2026-11-19', { debtor_id })
    const newer = await engine.createInvoice('2026-12-31', { debtor_id })
    const payment = await engine.testAccount.create('/api/v1/payments', {
      ...{ invoice_id: newer.id, currency: 'EUR', amount: 10_000 },
    })
    await engine.plan(AFTER_EIGHT)
    t.strictSame(await log(engine), ['friendly:scheduled'])
    const { effects } = await takeBack(engine, payment.id, newer.id)
    t.equal(effects.messages_cancelled, 1)
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.strictSame(await log(engine), ['friendly:cancelled', 'friendly:credit_on_account'])
  },
)

t.test('a surplus that pays another invoice cancels the reminder about it', async (t) => {
  const engine = await startEngine(t)
  const { testAccount, deps } = engine
  testAccount.backend.now = new Date(BEFORE_EIGHT)
  await testAccount.backend.database.transaction((tx) =>
    setApplyCredit(tx, testAccount.accountId, 'oldest_first', {
      ...{ actor: OPERATOR, now: deps.clock() },
    }),
  )
  const { id: debtor_id } = await engine.createDebtor()
  const other = await engine.createInvoice('2026-11-19', { debtor_id })
  const { id: invoice_id } = await engine.createInvoice('2026-12-31', { debtor_id })
  await engine.plan(AFTER_EIGHT)
  const { effects } = await payOnAccount(engine, debtor_id, 20_000, {
    ...{ debtor_id: null, invoice_id, allow_overpayment: true },
  })
  t.equal(effects.messages_cancelled, 1)
  t.strictSame(await log(engine), ['friendly:cancelled'])
  t.equal((await testAccount.read(`/api/v1/invoices/${other.id}`)).status, 'paid')
})

t.test(
  'after one of two invoices is paid, the reminder about the other is sent at once',
  async (t) => {
    const engine = await startEngine(t)
    const { id: debtor_id } = await engine.createDebtor()
    const paid = await engine.createInvoice('2026-11-19', { debtor_id })
    const other = await engine.createInvoice('2026-11-19', { debtor_id })
    await engine.plan(AFTER_EIGHT)
    await payOnAccount(engine, debtor_id, 10_000, { debtor_id: null, invoice_id: paid.id })
    await engine.send()
    t.strictSame(await log(engine), ['friendly:cancelled', 'friendly:sent'])
    const text = engine.smtp.mails[0]?.mail.text
    matches(t, text, containing(other.number))
    t.notMatch(text, paid.number)
  },
)

t.test('a payment on account cancels a reminder that awaits approval', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoiceAwaitingApproval()
  await payOnAccount(engine, invoice.debtor_id, 10_000)
  await rejectsWith(t, engine.decide({ approve: true }), {
    message: 'no message waits for approval',
  })
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.strictSame((await log(engine)).slice(2), ['firm:cancelled', 'firm:credit_on_account'])
})

t.test('the preview deducts money on account', async (t) => {
  const engine = await startEngine(t)
  engine.testAccount.backend.now = new Date(BEFORE_EIGHT)
  const { id: debtor_id } = await engine.createDebtor()
  await engine.createInvoice('2026-11-18', { debtor_id })
  const partlyCovered = await engine.createInvoice('2026-11-19', { debtor_id })
  await payOnAccount(engine, debtor_id, 14_000)
  const { testAccount, deps } = engine
  const { read } = testAccount.backend.database
  const previewed = await previewReminders(read, testAccount.accountId, deps.clock(), 2)
  t.strictSame(
    previewed.map(({ refusal, invoices }) => [
      refusal?.reason,
      ...invoices.map(({ id, amountDue, onAccount }) => [
        id === partlyCovered.id,
        amountDue,
        onAccount,
      ]),
    ]),
    [
      ['credit_on_account', [false, 10_000, 10_000]],
      [undefined, [true, 10_000, 4000]],
    ],
  )
})
