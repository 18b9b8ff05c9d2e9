// No matter how a hand-over fails, no message is lost, and no debtor gets a message three times.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { type Database, databaseOf } from '../../../backend/database/database.ts'
import { unavailable } from '../../../backend/database/unavailable.ts'
import { editInvoice } from '../../../backend/invoices/edit-invoice.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import { DEFAULT_LADDER } from '../../../backend/reminders/planning/ladder.ts'
import { runPlanning } from '../../../backend/reminders/planning/planning-run.ts'
import { changeProfile } from '../../../backend/reminders/reminder-content.ts'
import { recordHandOverResult } from '../../../backend/reminders/sending/hand-over-result.ts'
import { REMINDER_LEASES } from '../../../backend/reminders/sending/leases.ts'
import { runSendCheck } from '../../../backend/reminders/sending/send-check.ts'
import { sendRound, startSendWorker } from '../../../backend/reminders/sending/send-worker.ts'
import { changeChasingSettings } from '../../../backend/reminders/settings.ts'
import { deleteAllExpired } from '../../../backend/retention/retention.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'
import { deliveryReport } from '../../fixtures/servers/inbound.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const MORNING = '2026-11-24T08:00:00.000Z'
const HOUR_MS = 3_600_000

const messageIds = (engine: Engine) => engine.smtp.mails.map(({ mail }) => mail.messageId)

/** Runs the send check of the message, like a worker that is killed immediately afterwards. */
async function crashAfterSendCheck(engine: Engine) {
  const { database } = engine.testAccount.backend
  const [message] = await engine.messages()
  const handOver = await database.transaction((tx) =>
    runSendCheck(tx, engine.deps, message?.id ?? '', engine.testAccount.backend.now),
  )
  if (handOver === undefined) throw new Error('the send check blocked the message')
  return handOver
}

t.test('concurrent workers send each message once', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 5; n++) await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  await Promise.all([
    sendRound(engine.deps, 4),
    sendRound(engine.deps, 4),
    sendRound(engine.deps, 4),
  ])
  t.equal(engine.smtp.mails.length, 5)
  t.equal(new Set(messageIds(engine)).size, 5)
  t.ok((await engine.messageLog()).every((entry) => entry === 'friendly:sent'))
})

// Regression: a debtor whose planning met a short outage of the database was planned an hour later.
t.test('planning that met an outage of the database is repeated a minute later', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-18')
  const { database } = engine.testAccount.backend
  let isAvailable = false
  const interrupted: Database = {
    ...databaseOf(database, engine.testAccount.accountId),
    async transaction(work) {
      if (isAvailable) return database.transaction(work)
      isAvailable = true
      throw unavailable(new Error('the server restarts'))
    },
  }
  const plan = (at: string) => runPlanning({ database: interrupted, log: SILENT }, new Date(at))
  matches(t, await plan('2026-11-24T08:00:00.000Z'), { messages: 0 })
  matches(t, await plan('2026-11-24T08:01:00.000Z'), { messages: 1 })
})

t.test('concurrent planning runs plan each message once', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 5; n++) await engine.createInvoice('2026-11-19')
  await Promise.all([engine.plan(MORNING), engine.plan(MORNING), engine.plan(MORNING)])
  t.equal((await engine.messages()).length, 5)
})

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

t.test(
  'if the mail server is unavailable for an hour, each message is sent once afterwards',
  async (t) => {
    const engine = await startEngine(t)
    for (let n = 0; n < 6; n++) await engine.createInvoice('2026-11-19')
    await engine.smtp.stop()
    await engine.plan(MORNING)
    for (let minute = 0; minute < 60; minute += 5) {
      await engine.send(new Date(Date.parse(MORNING) + minute * 60_000).toISOString())
    }
    t.ok(
      (await engine.messages()).every(
        ({ status }) => status === 'queued' || status === 'scheduled',
      ),
    )
    await engine.smtp.start()
    for (let minute = 60; minute < 120; minute += 5) {
      await engine.send(new Date(Date.parse(MORNING) + minute * 60_000).toISOString())
    }
    t.equal(engine.smtp.mails.length, 6)
    t.equal(new Set(messageIds(engine)).size, 6)
    t.ok((await engine.messageLog()).every((entry) => entry === 'friendly:sent'))
  },
)

t.test(
  'if connections break after the server has received the mail, it is sent twice; then it counts as failed',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    engine.smtp.failAt('data', 'drop')
    await engine.send()
    t.strictSame(await engine.messageLog(), ['friendly:queued'])
    await engine.send('2026-11-24T08:30:00.000Z')
    await engine.send('2026-11-24T09:30:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:failed'])
    t.equal(engine.smtp.mails.length, 2)
    t.equal(new Set(messageIds(engine)).size, 1)
  },
)

t.test(
  'a temporary rejection is retried; a permanent one stops all messages to the address',
  async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.createInvoice('2026-11-19')
    engine.smtp.failAt('rcpt', { code: 450, text: '4.2.1 come back later' }, 1)
    await engine.planAndSendAt(MORNING)
    matches(t, await engine.messages(), [
      { status: 'queued', bounce_type: 'soft', soft_bounces: 1 },
    ])
    engine.smtp.failAt('rcpt', { code: 550, text: '5.1.1 no such user' }, 1)
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    matches(t, await engine.messages(), [
      { status: 'bounced', bounce_type: 'hard' },
      { status: 'suppressed', suppression_reason: 'bounced', sent_at: null },
    ])
    await engine.planAndSendAt('2026-12-24T09:00:00.000Z')
    t.equal(engine.smtp.mails.length, 0)
    const debtor = await engine.testAccount.read(`/api/v1/debtors/${invoice.debtor_id}`)
    matches(t, debtor, { contactability: { email: 'bounced' }, chasing: { status: 'paused' } })
    await engine.service.clearSuppression(invoice.debtor_id)
    await engine.planAndSendAt('2026-12-28T09:00:00.000Z')
    t.equal(
      (await engine.messageLog()).at(-1),
      'friendly:sent',
      'the first stage, because none had been sent',
    )
  },
)

t.test('a message that bounces softly is not sent after a later reminder', async (t) => {
  // Regression: a mail server reported after five days that it could not deliver the first reminder. This reminder was
  // then sent again, a day after the second one.
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-19')
  const [first] = await engine.planAndSendAt(MORNING)
  await engine.planAndSendAt('2026-11-30T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:sent', 'reminder:sent'])
  await engine.service.post(deliveryReport({ messageId: String(first?.id), status: '4.4.7' }))
  await engine.planAndSendAt('2026-12-01T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:bounced', 'reminder:sent'])
  matches(t, await engine.testAccount.read(`/api/v1/debtors/${invoice.debtor_id}`), {
    contactability: { email: 'ok' },
  })
  await engine.planAndSendAt('2026-12-10T09:00:00.000Z')
  t.equal((await engine.messageLog()).at(-1), 'firm:awaiting_approval', 'the next stage follows')
})

t.test(
  'a soft bounce of an old message whose facts were deleted does not block reminders',
  async (t) => {
    // Regression: the message stayed queued forever, and no other reminder was planned for its debtor.
    const engine = await startEngine(t)
    const { debtor_id } = await engine.createInvoice('2026-11-19')
    const [first] = await engine.planAndSendAt(MORNING)
    const { database } = engine.testAccount.backend
    await deleteAllExpired(database, new Date('2027-03-01T09:00:00.000Z'))
    await engine.service.post(deliveryReport({ messageId: String(first?.id), status: '4.4.7' }))
    await engine.createInvoice('2026-11-20', { debtor_id })
    await engine.planAndSendAt('2026-11-30T09:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:bounced', 'friendly:sent'])
  },
)

t.test('a debtor gets at most one message a day, and none at night', async (t) => {
  const engine = await startEngine(t)
  const { id: debtor_id } = await engine.createDebtor()
  await engine.createInvoice('2026-11-19', { debtor_id })
  await engine.planAndSendAt(MORNING)
  await engine.createInvoice('2026-11-18', { debtor_id })
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.equal(engine.smtp.mails.length, 1)
  await engine.planAndSendAt('2026-11-24T23:30:00.000Z')
  t.equal(engine.smtp.mails.length, 1, 'the next day has begun, but not its working hours')
  await engine.planAndSendAt('2026-11-25T07:00:00.000Z')
  t.equal(engine.smtp.mails.length, 2)
})

t.test('a retry on a later day states the days past due of that day', async (t) => {
  // Regression: a reminder that was sent after an outage of the mail server stated the days of the first attempt.
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-21')
  engine.smtp.failAt('connect', { code: 421, text: 'Try again later' })
  await engine.planAndSendAt(MORNING)
  engine.smtp.recover()
  await engine.planAndSendAt('2026-11-26T08:00:00.000Z')
  matches(t, engine.smtp.mails, [{ mail: { text: containing('5 days overdue') } }])
  matches(t, await engine.messages(), [{ days_past_due: 5 }])
})

t.test('a text that may have arrived is repeated unchanged on a later day', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-21')
  engine.smtp.failAt('data', 'drop', 1)
  await engine.planAndSendAt(MORNING)
  await engine.planAndSendAt('2026-11-26T08:00:00.000Z')
  const [first, second] = engine.smtp.mails.map(({ mail }) => mail.text)
  matches(t, first, containing('3 days overdue'))
  t.equal(second, first)
})

t.test('a courtesy that was not sent by the due date is skipped', async (t) => {
  // Regression: after an outage of the mail server, an overdue invoice was announced as due soon, and its first reminder
  // followed five days later.
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  const ladder = { ...DEFAULT_LADDER, courtesy: -3 }
  await backend.database.transaction((tx) =>
    changeChasingSettings(tx, accountId, { ladder }, { actor: OPERATOR, now: backend.now }),
  )
  await engine.createInvoice('2026-12-04')
  engine.smtp.failAt('connect', { code: 421, text: 'Try again later' })
  await engine.planAndSendAt('2026-12-01T08:00:00.000Z')
  await engine.planAndSendAt('2026-12-04T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['null:queued'])
  engine.smtp.recover()
  await engine.planAndSendAt('2026-12-07T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['null:cancelled', 'friendly:sent'])
  matches(t, engine.smtp.mails, [{ mail: { subject: containing('A friendly reminder') } }])
})

t.test('reminders follow a new time zone of the account', async (t) => {
  // Regression: the next reminder kept the time of the old time zone, at which the sending hours in Auckland are over, so
  // that the reminder was sent a day late.
  const engine = await startEngine(t)
  const { testAccount } = engine
  const { backend, accountId } = testAccount
  const invoice = await engine.createInvoice('2026-12-06')
  const { id } = await engine.createDebtor({ timezone: 'Europe/Lisbon' })
  const inLisbon = await engine.createInvoice('2026-12-06', { debtor_id: id })
  const nextActionOf = async (of: Json) =>
    (await testAccount.read(`/api/v1/invoices/${of.id}`)).chasing.next_action_at
  await engine.plan('2026-12-08T12:00:00.000Z')
  t.equal(await nextActionOf(invoice), '2026-12-09T07:00:00.000Z')
  for (const [timezone, expected] of [
    ['Pacific/Auckland', '2026-12-08T19:00:00.000Z'],
    ['Pacific/Honolulu', '2026-12-09T18:00:00.000Z'],
  ] as const) {
    await backend.database.transaction((tx) =>
      changeProfile(tx, accountId, { timezone }, { actor: OPERATOR, now: backend.now }),
    )
    await engine.plan(backend.now.toISOString())
    t.equal(await nextActionOf(invoice), expected)
    t.equal(await nextActionOf(inLisbon), '2026-12-09T08:00:00.000Z')
  }
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

t.test('the day of an attempt is not forgotten if the clock is set back', async (t) => {
  // Regression: after the clock was set back by a day, sending the message again replaced the time of the attempt, so
  // the debtor could get two messages on the day of the attempt.
  const engine = await startEngine(t)
  const { debtor_id } = await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  await crashAfterSendCheck(engine)
  const { database } = engine.testAccount.backend
  const dayBefore = new Date('2026-11-23T09:00:00.000Z')
  await database.transaction((tx) => REMINDER_LEASES.reclaim(tx, dayBefore, () => true))
  await engine.send(dayBefore.toISOString())
  t.strictSame(await engine.messageLog(), ['friendly:sent'])
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

t.test('a planned message wakes the worker', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-18')
  engine.testAccount.backend.now = new Date(MORNING)
  const { database } = engine.testAccount.backend
  const before = database.activity().committed
  const worker = startSendWorker({ ...engine.deps, isOnlyBackend: true, pollMs: HOUR_MS })
  t.teardown(() => worker.stop())
  await until(() => database.activity().committed > before, 'the worker has started')
  await engine.plan(MORNING)
  await until(() => engine.smtp.mails.length === 1, 'the message is sent')
})

t.test('the worker looks up when the next message is due', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-18')
  await engine.plan(MORNING)
  const { database } = engine.testAccount.backend
  const due = new Date('2026-11-24T08:00:02.500Z')
  await database.transaction((tx) =>
    tx.updateTable('reminders').set({ run_at: due.toISOString() }).execute(),
  )
  const next = (at: string, horizonMs: number) =>
    REMINDER_LEASES.findNextRun(database.read, new Date(at), horizonMs)
  t.strictSame(await next(MORNING, 2500), due)
  t.equal(await next(MORNING, 2499), undefined, 'later than the next poll')
  t.equal(await next(due.toISOString(), 2500), undefined, 'due now')
})

t.test('a message with malformed stored facts does not block other messages', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-18')
  await engine.createInvoice('2026-11-18')
  await engine.plan(MORNING)
  const { database } = engine.testAccount.backend
  const [broken] = await engine.messages()
  await database.transaction((tx) =>
    tx
      .updateTable('reminders')
      .set({ facts: '{' })
      .where('message_id', '=', broken?.id ?? '')
      .execute(),
  )
  const worker = startSendWorker({ ...engine.deps, isOnlyBackend: true, pollMs: 5 })
  await until(() => engine.smtp.mails.length === 1, 'the other message is sent')
  await worker.stop()
  t.strictSame(await engine.messageLog(), ['friendly:scheduled', 'friendly:sent'])
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

t.test('a relay that rejects some recipients delays no other messages', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 7; n++) await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  engine.testAccount.backend.now = new Date(MORNING)
  const denied = { code: 554, text: '5.7.1 Relay access denied' }
  engine.smtp.failAt('rcpt', denied, 2)
  matches(t, await sendRound(engine.deps, 1), { isUnavailable: false })
  t.equal(engine.smtp.mails.length, 5)
  t.equal((await engine.messageLog()).filter((entry) => entry === 'friendly:queued').length, 2)

  engine.smtp.failAt('rcpt', denied)
  for (let n = 0; n < 5; n++) await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const before = engine.smtp.connections()
  matches(
    t,
    await sendRound(engine.deps, 1),
    { isUnavailable: true },
    'a server that accepts no recipient counts as unavailable',
  )
  t.equal(engine.smtp.connections() - before, 3)
})

t.test('a worker detects when the mail server is available again', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 3; n++) await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  await engine.smtp.stop()
  const worker = startSendWorker({
    ...engine.deps,
    isOnlyBackend: true,
    pollMs: 5,
    unavailableMs: 5,
  })
  t.teardown(() => worker.stop())
  await until(
    async () => (await engine.messageLog()).every((entry) => entry === 'friendly:queued'),
    'every message was tried',
  )
  await engine.smtp.start()
  engine.testAccount.backend.now = new Date('2026-11-24T09:00:00.000Z')
  await until(() => engine.smtp.mails.length === 3, 'all messages are sent')
})
