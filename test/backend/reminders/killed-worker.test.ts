// A worker is killed between the send check of a message and the recording of its result. The message is neither lost
// nor sent a third time, and payments, reports and edits in the meantime have their effect.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { archiveDebtor } from '../../../backend/debtors/chasing.ts'
import { disputeInvoice } from '../../../backend/invoices/actions.ts'
import { editInvoice } from '../../../backend/invoices/edit-invoice.ts'
import type { HandOverResult } from '../../../backend/mail/mail.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import { recordHandOverResult } from '../../../backend/reminders/sending/hand-over-result.ts'
import { REMINDER_LEASES } from '../../../backend/reminders/sending/leases.ts'
import { type HandOver, runSendCheck } from '../../../backend/reminders/sending/send-check.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'
import { deliveryReport } from '../../fixtures/servers/inbound.ts'

const MORNING = '2026-11-24T08:00:00.000Z'

const messageIds = (engine: Engine) => engine.smtp.mails.map(({ mail }) => mail.messageId)

/** Runs the send check of the message, like a worker that is killed immediately afterwards. */
async function crashAfterSendCheck(engine: Engine) {
  const { database } = engine.testAccount.backend
  const message = (await engine.messages()).at(-1)
  const handOver = await database.transaction((tx) =>
    runSendCheck(tx, engine.deps, message?.id ?? '', engine.testAccount.backend.now),
  )
  if (handOver === undefined) throw new Error('the send check blocked the message')
  return handOver
}

t.test(
  'a worker that is killed after the hand-over causes one repeat, with the same Message-ID',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    for (const at of ['2026-11-24T08:00:00.000Z', '2026-11-24T08:10:00.000Z']) {
      engine.testAccount.backend.now = new Date(at)
      const { mail, startBefore } = await crashAfterSendCheck(engine)
      await engine.deps.mailer.send(mail, { startBefore })
    }
    await engine.send('2026-11-24T08:20:00.000Z')
    await engine.send('2026-11-24T08:30:00.000Z')
    t.equal(engine.smtp.mails.length, 2)
    t.equal(new Set(messageIds(engine)).size, 1)
    t.strictSame(await engine.messageLog(), ['friendly:failed'], 'the outcome is unknown')
    await engine.planAndSendAt('2026-12-01T08:20:00.000Z')
    t.strictSame(
      await engine.messageLog(),
      ['friendly:failed', 'reminder:sent'],
      'the next stage follows',
    )
  },
)

t.test(
  'if a worker is killed before the hand-over, the message is sent when its lease has expired',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    await crashAfterSendCheck(engine)
    const { data } = await engine.testAccount.read('/api/v1/messages')
    t.equal(data[0].status, 'queued', 'clients do not see the lease')
    await engine.send('2026-11-24T08:01:00.000Z')
    t.equal(engine.smtp.mails.length, 0, 'the lease has not expired yet')
    await engine.send('2026-11-24T08:02:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:sent'])
  },
)

t.test(
  'the safety rails also apply to a message whose worker was killed, and its stage is not repeated',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    await crashAfterSendCheck(engine)
    await engine.killSwitch({ on: true, reason: 'A wrong bank account' })
    await engine.planAndSendAt('2026-11-24T08:02:00.000Z')
    matches(t, await engine.messages(), [
      {
        status: 'suppressed',
        suppression_reason: 'kill_switch',
        suppression_detail: /may have been sent before/,
      },
    ])
    await engine.killSwitch({ on: false })
    await engine.planAndSendAt('2026-11-25T08:02:00.000Z')
    t.equal((await engine.messages()).length, 1, 'the same stage is not planned again')
  },
)

const BY_OPERATOR = { actor: OPERATOR, now: new Date(MORNING) }

for (const { title, block, reason, detail } of [
  {
    title: 'its debtor was archived',
    block: ({ testAccount: { backend, accountId } }: Engine, { debtor_id }: Json) =>
      backend.database.transaction((tx) => archiveDebtor(tx, accountId, debtor_id, BY_OPERATOR)),
    reason: 'debtor_paused',
    detail: /^the customer is archived/,
  },
  {
    title: 'its invoice was paid in part',
    block: ({ testAccount }: Engine, { id: invoice_id }: Json) =>
      testAccount.create('/api/v1/payments', { invoice_id, amount: 100, currency: 'EUR' }),
    reason: 'debtor_paused',
    detail: /^reminders about invoice \S+ are paused/,
  },
  {
    title: 'its invoice was disputed',
    block: ({ testAccount: { backend, accountId } }: Engine, { id }: Json) =>
      backend.database.transaction((tx) => disputeInvoice(tx, accountId, id, 'No', BY_OPERATOR)),
    reason: 'disputed',
    detail: /^invoice \S+ is disputed/,
  },
  {
    title: 'money on account covered a part of its invoice',
    block: ({ testAccount }: Engine, { debtor_id }: Json) =>
      testAccount.create('/api/v1/payments', { debtor_id, amount: 100, currency: 'EUR' }),
    reason: 'payment_received',
    detail: /^the customer has paid since the reminder was planned/,
  },
]) {
  t.test(`a message is not sent again if ${title} while its worker was dead`, async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    await crashAfterSendCheck(engine)
    await block(engine, invoice)
    await engine.planAndSendAt('2026-11-24T08:02:00.000Z')
    t.equal(engine.smtp.mails.length, 0)
    const suppressed = { suppression_reason: reason, suppression_detail: detail }
    matches(t, await engine.messages(), [{ status: 'suppressed', ...suppressed }])
  })
}

t.test('an approval lapses if its invoice is paid while the worker is dead', async (t) => {
  const engine = await startEngine(t)
  const { id: invoice_id } = await engine.createInvoiceAwaitingApproval()
  await engine.decide({ approve: true })
  await crashAfterSendCheck(engine)
  const payment = { invoice_id, amount: 10_000, currency: 'EUR' }
  await engine.testAccount.create('/api/v1/payments', payment)
  await engine.planAndSendAt('2026-11-24T08:02:00.000Z')
  const suppressed = { status: 'suppressed', suppression_reason: 'invoice_paid' }
  matches(t, (await engine.messages()).at(-1), { ...suppressed, approval_status: 'lapsed' })
})

t.test('only the worker that has the lease of a message records its result', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const expired = await crashAfterSendCheck(engine)
  t.equal(expired.startBefore.toISOString(), '2026-11-24T08:00:05.000Z')
  engine.testAccount.backend.now = new Date('2026-11-24T08:02:00.000Z')
  const current = await crashAfterSendCheck(engine)
  const accepted = { outcome: 'accepted', providerMessageId: null } as const
  const { database, now } = engine.testAccount.backend
  const record = (handOver: typeof current) =>
    database.transaction((tx) => recordHandOverResult(tx, handOver, accepted, now))
  t.equal(await record(expired), false)
  t.strictSame(await engine.messageLog(), ['friendly:sending'])
  t.equal(await record(current), true)
  t.strictSame(await engine.messageLog(), ['friendly:sent'])
})

t.test('a message about a reopened invoice is not sent on the day of another', async (t) => {
  const engine = await startEngine(t)
  const { id: invoice_id } = await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const handOver = await crashAfterSendCheck(engine)
  const { testAccount } = engine
  const { backend, accountId } = testAccount
  const payment = { invoice_id, amount: 10_000, currency: 'EUR' }
  const { id } = await testAccount.create('/api/v1/payments', payment)
  await backend.database.transaction((tx) =>
    reversePayment(tx, accountId, id, 'It bounced', BY_OPERATOR),
  )
  await engine.plan(MORNING)
  const accepted = { outcome: 'accepted', providerMessageId: null } as const
  await backend.database.transaction((tx) =>
    recordHandOverResult(tx, handOver, accepted, backend.now),
  )
  await engine.send('2026-11-24T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:sent', 'friendly:scheduled'])
})

t.test('a payment for both invoices of a message reports the message once', async (t) => {
  const engine = await startEngine(t)
  const paid = await engine.createInvoice('2026-11-18')
  await engine.createInvoice('2026-11-19', { debtor_id: paid.debtor_id })
  await engine.plan(MORNING)
  const handOver = await crashAfterSendCheck(engine)
  const { effects } = await engine.testAccount.create('/api/v1/payments', {
    invoice_id: paid.id,
    amount: 20_000,
    currency: 'EUR',
    allow_overpayment: true,
  })
  matches(t, effects, { messages_cancelled: 0, messages_in_flight: [handOver.messageId] })
})

t.test('a payment reports a message that can no longer be cancelled', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const handOver = await crashAfterSendCheck(engine)
  const { effects } = await engine.testAccount.create('/api/v1/payments', {
    invoice_id: invoice.id,
    amount: 10_000,
    currency: 'EUR',
  })
  matches(t, effects, { messages_cancelled: 0, messages_in_flight: [handOver.messageId] })
  const { database } = engine.testAccount.backend
  const accepted = { outcome: 'accepted', providerMessageId: null } as const
  t.ok(
    await database.transaction((tx) =>
      recordHandOverResult(tx, handOver, accepted, engine.testAccount.backend.now),
    ),
  )
  t.strictSame(await engine.messageLog(), ['friendly:sent'], 'the message was sent nevertheless')
  matches(t, (await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)).chasing, {
    status: 'stopped',
    stage: 'friendly',
    next_stage: null,
  })
})

for (const result of [
  { outcome: 'accepted', providerMessageId: '<77@eu-west-1.amazonses.com>' },
  { outcome: 'unknown', detail: 'the connection was lost' },
] as const) {
  t.test(
    `delivery can be reported before the hand-over is recorded as ${result.outcome}`,
    async (t) => {
      // Regression: the report of delivery was dropped, and after an unknown outcome the message was sent again.
      const engine = await startEngine(t)
      await engine.createInvoice('2026-11-19')
      await engine.plan(MORNING)
      const handOver = await crashAfterSendCheck(engine)
      const { messageId } = handOver
      await engine.service.post(deliveryReport({ messageId, action: 'delivered', status: '2.1.5' }))
      t.strictSame(await engine.messageLog(), ['friendly:sending'])
      await engine.testAccount.backend.database.transaction((tx) =>
        recordHandOverResult(tx, handOver, result, engine.testAccount.backend.now),
      )
      const { data } = await engine.testAccount.read('/api/v1/messages')
      matches(t, data, [
        {
          status: 'delivered',
          sent_at: MORNING,
          delivery: {
            delivered_at: MORNING,
            provider_message_id: result.outcome === 'accepted' ? result.providerMessageId : null,
          },
        },
      ])
      t.strictSame((await engine.service.events()).slice(-2), ['message.sent', 'message.delivered'])
      await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
      t.equal(engine.smtp.mails.length, 0, 'it is not sent again')
    },
  )
}

t.test('a report proves that a message with an unknown outcome was sent', async (t) => {
  // Regression: these reports were ignored, and the customer got the message twice.
  for (const [action, status, expected] of [
    ['delivered', '2.1.5', 'delivered'],
    ['relayed', '2.0.0', 'sent'],
    ['delayed', '4.4.1', 'sent'],
  ] as const) {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    const handOver = await crashAfterSendCheck(engine)
    const { messageId } = handOver
    const unknown = { outcome: 'unknown', detail: 'the connection was lost' } as const
    await engine.testAccount.backend.database.transaction((tx) =>
      recordHandOverResult(tx, handOver, unknown, engine.testAccount.backend.now),
    )
    t.strictSame(await engine.messageLog(), ['friendly:queued'])
    await engine.service.post(deliveryReport({ messageId, action, status }))
    t.strictSame(await engine.messageLog(), [`friendly:${expected}`])
    await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
    t.equal(engine.smtp.mails.length, 0, 'it is not sent again')
    const { data } = await engine.testAccount.read('/api/v1/messages')
    const delivered_at = action === 'delivered' ? MORNING : null
    matches(t, data, [{ status: expected, sent_at: MORNING, delivery: { delivered_at } }])
  }
})

for (const result of [
  { outcome: 'abandoned', detail: 'no connection' },
  { outcome: 'refused', type: 'soft', code: '4.2.1', detail: 'Try again later' },
] as const) {
  t.test(
    `a message that was delivered is not sent again if its retry is ${result.outcome}`,
    async (t) => {
      // Regression: a report of the first attempt that arrived during the second one was ignored unless the outcome of
      // the second one was unknown too, and the message was sent again.
      const engine = await startEngine(t)
      await engine.createInvoice('2026-11-19')
      await engine.plan(MORNING)
      const { backend } = engine.testAccount
      const record = (handOver: HandOver, result: HandOverResult) =>
        backend.database.transaction((tx) =>
          recordHandOverResult(tx, handOver, result, backend.now),
        )
      const unknown = { outcome: 'unknown', detail: 'the connection was lost' } as const
      await record(await crashAfterSendCheck(engine), unknown)
      backend.now = new Date('2026-11-24T08:02:00.000Z')
      const second = await crashAfterSendCheck(engine)
      const { messageId } = second
      await engine.service.post(deliveryReport({ messageId, action: 'delivered', status: '2.1.5' }))
      await record(second, result)
      t.strictSame(await engine.messageLog(), ['friendly:delivered'])
      await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
      t.equal(engine.smtp.mails.length, 0, 'it is not sent again')
    },
  )
}

t.test(
  'a report about an attempt that bounced does not prove that its retry was accepted',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.planAndSendAt(MORNING)
    const messageId = (await engine.messages())[0]?.id ?? ''
    const finalRecipient = (await engine.messages())[0]?.recipient ?? ''
    await engine.service.post(deliveryReport({ messageId, finalRecipient, status: '4.2.2' }))
    const { backend } = engine.testAccount
    backend.now = new Date('2026-11-24T08:30:00.000Z')
    const retry = await crashAfterSendCheck(engine)
    await engine.service.post(deliveryReport({ messageId, action: 'delivered', status: '2.1.5' }))
    const result = { outcome: 'abandoned', detail: 'no connection' } as const
    await backend.database.transaction((tx) => recordHandOverResult(tx, retry, result, backend.now))
    matches(t, await engine.messages(), [{ status: 'queued', delivered_at: null }])
    await engine.send('2026-11-24T10:00:00.000Z')
    t.equal(engine.smtp.mails.length, 2, 'it is sent again')
    t.strictSame(await engine.messageLog(), ['friendly:sent'])
  },
)

/** Records an unknown outcome just before the end of business hours, and postpones the retry to the next morning. */
async function postponeRetryOfUnknownOutcome(engine: Engine): Promise<string> {
  const { backend } = engine.testAccount
  backend.now = new Date('2026-11-24T16:59:30.000Z')
  const handOver = await crashAfterSendCheck(engine)
  const unknown = { outcome: 'unknown', detail: 'the connection was lost' } as const
  await backend.database.transaction((tx) =>
    recordHandOverResult(tx, handOver, unknown, backend.now),
  )
  await engine.send('2026-11-24T17:02:00.000Z')
  return handOver.messageId
}

for (const { status, plan } of [
  {
    status: 'scheduled',
    plan: async (engine: Engine) => {
      await engine.createInvoice('2026-11-19')
      await engine.plan(MORNING)
    },
  },
  {
    status: 'approved',
    plan: async (engine: Engine) => {
      await engine.createInvoiceAwaitingApproval()
      await engine.decide({ approve: true })
    },
  },
]) {
  t.test(`a report about a postponed retry counts while the message is ${status}`, async (t) => {
    // Regression: a report that arrived after the retry was postponed was ignored, and the message was sent again.
    for (const [report, expected] of [
      [{ action: 'delivered', status: '2.1.5' }, 'delivered'],
      [{ action: 'relayed', status: '2.0.0' }, 'sent'],
      [{}, 'bounced'],
    ] as const) {
      const engine = await startEngine(t)
      await plan(engine)
      const before = engine.smtp.mails.length
      const messageId = await postponeRetryOfUnknownOutcome(engine)
      const lastStatus = async () => (await engine.messages()).at(-1)?.status
      t.equal(await lastStatus(), status)
      const recipient = (await engine.messages()).at(-1)?.recipient ?? ''
      await engine.service.post(deliveryReport({ messageId, finalRecipient: recipient, ...report }))
      t.equal(await lastStatus(), expected)
      await engine.planAndSendAt('2026-11-25T08:00:00.000Z')
      t.equal(engine.smtp.mails.length, before, 'it is not sent again')
      const suppressions = await engine.deps.database.read
        .selectFrom('suppressed_addresses')
        .select(['address', 'reason'])
        .execute()
      const bounced = [{ address: recipient, reason: 'bounced' }]
      t.strictSame(suppressions, expected === 'bounced' ? bounced : [])
    }
  })
}

for (const [action, status] of [
  ['relayed', '2.0.0'],
  ['delayed', '4.4.1'],
] as const) {
  t.test(
    `a message is not sent again if it was ${action} before its worker was killed`,
    async (t) => {
      // Regression: these reports were ignored during a hand-over, and the customer could get the message twice.
      const engine = await startEngine(t)
      const { id } = await engine.createInvoice('2026-11-19')
      await engine.plan(MORNING)
      const { messageId } = await crashAfterSendCheck(engine)
      await engine.service.post(deliveryReport({ messageId, action, status }))
      const { data } = await engine.testAccount.read('/api/v1/messages')
      matches(t, data, [{ status: 'queued', sent_at: null }], 'clients do not see the hand-over')
      await engine.planAndSendAt('2026-11-24T08:10:00.000Z')
      t.equal(engine.smtp.mails.length, 0)
      matches(t, await engine.messages(), [{ status: 'sent', sent_at: MORNING }])
      const { chasing } = await engine.testAccount.read(`/api/v1/invoices/${id}`)
      t.equal(chasing.stage, 'friendly')
    },
  )

  for (const outcome of ['unknown', 'abandoned'] as const) {
    t.test(
      `a message is not sent again if it was ${action} before its outcome was ${outcome}`,
      async (t) => {
        const engine = await startEngine(t)
        await engine.createInvoice('2026-11-19')
        await engine.plan(MORNING)
        const handOver = await crashAfterSendCheck(engine)
        const { messageId } = handOver
        await engine.service.post(deliveryReport({ messageId, action, status }))
        const { database, now } = engine.testAccount.backend
        const result = { outcome, detail: 'the connection was lost' } as const
        await database.transaction((tx) => recordHandOverResult(tx, handOver, result, now))
        t.strictSame(await engine.messageLog(), ['friendly:sent'])
        await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
        t.equal(engine.smtp.mails.length, 0)
      },
    )
  }
}

t.test('a delivered message is not sent again if its worker was killed', async (t) => {
  // Regression: the report of delivery was ignored, and the debtor got the message twice.
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const { messageId } = await crashAfterSendCheck(engine)
  await engine.service.post(deliveryReport({ messageId, action: 'delivered', status: '2.1.5' }))
  await engine.planAndSendAt('2026-11-24T08:10:00.000Z')
  t.equal(engine.smtp.mails.length, 0)
  t.strictSame(await engine.messageLog(), ['friendly:delivered'])
})

t.test('a message is not sent again after its invoice’s due date was changed', async (t) => {
  // Regression: if the due date was changed during a hand-over that failed, the retry still named the former date.
  const engine = await startEngine(t)
  const { id } = await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const handOver = await crashAfterSendCheck(engine)
  const { accountId, backend } = engine.testAccount
  const { database, now } = backend
  await database.transaction((tx) =>
    editInvoice(tx, accountId, id, { dueDate: '2026-12-01' }, { actor: OPERATOR, now }),
  )
  const result = { outcome: 'abandoned', detail: 'no connection' } as const
  await database.transaction((tx) => recordHandOverResult(tx, handOver, result, now))
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:cancelled'])
  await engine.planAndSendAt('2026-12-04T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:cancelled', 'friendly:sent'])
})

t.test(
  'the kill switch does not end the lease of a message that is being handed over',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    const handOver = await crashAfterSendCheck(engine)
    await engine.killSwitch({ on: true, reason: 'An audit' })
    await engine.plan('2026-11-24T08:00:01.000Z')
    await engine.send()
    const { database, now } = engine.testAccount.backend
    const accepted = { outcome: 'accepted', providerMessageId: null } as const
    t.ok(await database.transaction((tx) => recordHandOverResult(tx, handOver, accepted, now)))
    t.strictSame(await engine.messageLog(), ['friendly:sent'])
  },
)

t.test('the day of an attempt is kept if the clock is set back', async (t) => {
  // Regression: after the clock was set back by a day, sending the message again replaced the time of the attempt, so
  // the debtor could get two messages on the day of the attempt.
  const engine = await startEngine(t)
  const { id, debtor_id } = await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  await crashAfterSendCheck(engine)
  const { database } = engine.testAccount.backend
  const dayBefore = new Date('2026-11-23T09:00:00.000Z')
  await database.transaction((tx) => REMINDER_LEASES.makeOrphansDue(tx, dayBefore, () => true))
  await engine.send(dayBefore.toISOString())
  t.strictSame(await engine.messageLog(), ['friendly:sent'])
  const [sent] = await engine.messages()
  t.equal(sent?.sent_at, sent?.created_at, 'no message is sent before it is created')
  const { chasing } = await engine.testAccount.read(`/api/v1/invoices/${id}`)
  t.equal(chasing.last_message_at.slice(0, 10), '2026-11-24')
  await engine.createInvoice('2026-11-20', { debtor_id })
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.equal(engine.smtp.mails.length, 1)
  await engine.planAndSendAt('2026-11-25T09:00:00.000Z')
  t.equal(engine.smtp.mails.length, 2)
})

t.test('a message waits unchanged while another is being sent to its debtor', async (t) => {
  const engine = await startEngine(t)
  const { id: debtor_id } = await engine.createDebtor()
  const { id: invoice_id } = await engine.createInvoice('2026-11-19', { debtor_id })
  await engine.plan(MORNING)
  await crashAfterSendCheck(engine)
  const payment = { invoice_id, amount: 10_000, currency: 'EUR' }
  await engine.testAccount.create('/api/v1/payments', payment)
  await engine.createInvoice('2026-11-18', { debtor_id })
  await engine.plan(MORNING)
  const [, before] = await engine.messages()
  await engine.send('2026-11-24T08:00:30.000Z')
  const [, after] = await engine.messages()
  matches(t, before, { stage: 'friendly', status: 'scheduled' })
  t.strictSame(after, before, 'its time does not change every minute')
  await engine.send('2026-11-24T08:02:00.000Z')
  await engine.send('2026-11-24T08:03:00.000Z')
  const log = async () => (await engine.messageLog()).slice(1)
  t.strictSame(await log(), ['friendly:scheduled'], 'the other message may have arrived today')
  await engine.planAndSendAt('2026-11-25T08:00:00.000Z')
  t.strictSame(await log(), ['friendly:sent'])
})

t.test(
  'a message whose invoice was paid and reopened while its worker was dead is sent once',
  async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    await crashAfterSendCheck(engine)
    const { backend, accountId } = engine.testAccount
    const payment = await engine.testAccount.create('/api/v1/payments', {
      invoice_id: invoice.id,
      amount: 10_000,
      currency: 'EUR',
    })
    await backend.database.transaction((tx) =>
      reversePayment(tx, accountId, payment.id, 'It bounced', {
        actor: OPERATOR,
        now: backend.now,
      }),
    )
    await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
    await engine.planAndSendAt('2026-11-25T10:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:cancelled', 'friendly:sent'])
  },
)
