// No matter how a mail server rejects, delays or loses a message, no message is lost, and no debtor gets one three
// times.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { MessageRow } from '../../../backend/database/tables.ts'
import { disputeInvoice } from '../../../backend/invoices/actions.ts'
import type { Mailer } from '../../../backend/mail/mail.ts'
import { readStatusHistory } from '../../../backend/reminders/approvals.ts'
import { changeChasingSettings } from '../../../backend/reminders/chasing-settings.ts'
import { DEFAULT_LADDER } from '../../../backend/reminders/planning/ladder.ts'
import { sendRound } from '../../../backend/reminders/sending/send-worker.ts'
import { applyAllRetentionRules } from '../../../backend/retention/retention.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'
import { complaint, deliveryReport } from '../../fixtures/servers/inbound.ts'

const MORNING = '2026-11-24T08:00:00.000Z'
const UNSUBSCRIBE = {
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: 'List-Unsubscribe=One-Click',
}

const messageIds = (engine: Engine) => engine.smtp.mails.map(({ mail }) => mail.messageId)

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

t.test('while the mail server is unavailable, retries are at most 38 minutes apart', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-19')
  await engine.smtp.stop()
  await engine.plan(MORNING)
  await engine.send()
  const delays: number[] = []
  for (let attempt = 2; attempt <= 10; attempt++) {
    const [message] = await engine.messages()
    const at = String(message?.scheduled_for)
    delays.push(Date.parse(at) - engine.testAccount.backend.now.getTime())
    await engine.send(at)
  }
  t.ok(Math.max(...delays) <= 38 * 60_000, `${delays}`)
})

t.test('a mail program can unsubscribe the recipient of a reminder', async (t) => {
  const engine = await startEngine(t)
  const { debtor_id } = await engine.createInvoice('2026-11-19')
  await engine.planAndSendAt(MORNING)
  const [sent] = engine.smtp.mails
  const header = sent?.mail.headers.find(({ key }) => key === 'list-unsubscribe')
  const { pathname } = new URL(header?.value.slice(1, -1) ?? '')
  const { status } = await engine.service.request('POST', pathname, UNSUBSCRIBE)
  t.equal(status, 200)
  const debtor = await engine.testAccount.read(`/api/v1/debtors/${debtor_id}`)
  t.equal(debtor.contactability.email, 'unsubscribed')
})

t.test(
  'a complaint is the reason of a suppression even if the recipient unsubscribed',
  async (t) => {
    // Regression: the reason was unsubscribed, which the recipient can undo, while the debtor showed complained.
    const engine = await startEngine(t)
    const { service, testAccount } = engine
    const { debtor_id } = await engine.createInvoice('2026-11-19')
    const [sent] = await engine.planAndSendAt(MORNING)
    const path = service.unsubscribePathOf(sent?.recipient ?? '')
    await service.request('POST', path, UNSUBSCRIBE)
    await service.post(complaint(sent?.id ?? ''))
    await engine.planAndSendAt('2026-12-01T08:00:00.000Z')
    matches(t, (await engine.messages()).at(-1), { suppression_reason: 'complained' })
    const debtor = await testAccount.read(`/api/v1/debtors/${debtor_id}`)
    t.equal(debtor.contactability.email, 'complained')
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

/** Returns a report that the mail server has given up after some days. */
function lateReport(message?: MessageRow): string {
  const { id = '', recipient } = message ?? {}
  return deliveryReport({ messageId: id, finalRecipient: String(recipient), status: '4.4.7' })
}

t.test('a message that bounces softly is not sent after a later reminder', async (t) => {
  // Regression: a mail server reported after five days that it could not deliver the first reminder. This reminder was
  // then sent again, a day after the second one.
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-19')
  const [first] = await engine.planAndSendAt(MORNING)
  await engine.planAndSendAt('2026-11-30T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:sent', 'reminder:sent'])
  await engine.service.post(lateReport(first))
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
    await applyAllRetentionRules(database, new Date('2027-03-01T09:00:00.000Z'))
    await engine.service.post(lateReport(first))
    await engine.createInvoice('2026-11-20', { debtor_id })
    await engine.planAndSendAt('2026-11-30T09:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:bounced', 'friendly:sent'])
  },
)

t.test('the history of a delayed message says why it is delayed', async (t) => {
  // Regression: the history named both possible reasons, whichever applied.
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  const lastDetailOf = async (stage: string) => {
    const message = (await engine.messages()).findLast((candidate) => candidate.stage === stage)
    const history = await readStatusHistory(backend.database.read, accountId, String(message?.id))
    return history.at(-1)?.detail
  }
  const { debtor_id } = await engine.createInvoiceAwaitingApproval()
  await engine.createInvoice('2026-11-19', { debtor_id })
  engine.smtp.failAt('connect', { code: 421, text: 'Try again later' })
  await engine.planAndSendAt('2026-11-24T16:30:00.000Z')
  engine.smtp.recover()
  await engine.planAndSendAt('2026-11-24T18:00:00.000Z')
  t.equal(await lastDetailOf('friendly'), 'the time is outside business hours')
  await engine.planAndSendAt('2026-11-25T08:00:00.000Z')
  await engine.decide({ approve: true })
  await engine.planAndSendAt('2026-11-25T08:30:00.000Z')
  t.equal(await lastDetailOf('firm'), 'another reminder to the customer was sent today')
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
  // Regression: after an outage of the mail server, an overdue invoice was announced as due soon, and its first
  // reminder followed five days later.
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

t.test('a reminder does not announce an invoice whose due date has passed', async (t) => {
  // Regression: after an outage of the mail server, a reminder about another invoice still contained the invoice that
  // had become overdue, and the first reminder about this invoice followed five days later.
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  const ladder = { ...DEFAULT_LADDER, courtesy: -3 }
  await backend.database.transaction((tx) =>
    changeChasingSettings(tx, accountId, { ladder }, { actor: OPERATOR, now: backend.now }),
  )
  const { id: debtor_id } = await engine.createDebtor()
  await engine.createInvoice('2026-11-28', { debtor_id, number: 'OVERDUE' })
  await engine.createInvoice('2026-12-03', { debtor_id, number: 'ANNOUNCED' })
  engine.smtp.failAt('connect', { code: 421, text: 'Try again later' })
  await engine.planAndSendAt('2026-12-01T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:queued'])
  engine.smtp.recover()
  await engine.planAndSendAt('2026-12-04T08:00:00.000Z')
  await engine.planAndSendAt('2026-12-07T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:cancelled', 'friendly:sent', 'friendly:sent'])
  const texts = engine.smtp.mails.map(({ mail }) => mail.text)
  t.strictSame(
    texts.map((text) => /OVERDUE|ANNOUNCED/.exec(text ?? '')?.[0]),
    ['OVERDUE', 'ANNOUNCED'],
  )
})

t.test('waiting reminders about invoices that the account excludes are cancelled', async (t) => {
  // Regression: a reminder that waited for a retry or for approval was sent, although Settings said that no reminders
  // are sent about invoices that fell due before the chosen day.
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  await engine.createInvoiceAwaitingApproval()
  const { id: debtor_id } = await engine.createDebtor()
  await engine.createInvoice('2026-11-10', { debtor_id, number: 'OLD' })
  await engine.createInvoice('2026-11-20', { debtor_id, number: 'NEW' })
  engine.smtp.failAt('connect', { code: 421, text: 'Try again later' })
  await engine.planAndSendAt('2026-11-25T08:00:00.000Z')
  await backend.database.transaction((tx) =>
    changeChasingSettings(
      tx,
      accountId,
      { chaseFrom: '2026-11-15' },
      { actor: OPERATOR, now: backend.now },
    ),
  )
  engine.smtp.recover()
  await engine.planAndSendAt('2026-11-25T09:00:00.000Z')
  t.strictSame((await engine.messageLog()).slice(2), [
    'firm:cancelled',
    'friendly:cancelled',
    'friendly:sent',
  ])
  const last = engine.smtp.mails.at(-1)?.mail.text ?? ''
  t.strictSame(last.match(/OLD|NEW/g)?.includes('OLD'), false)
})

t.test('the next stage is correct if chasing is paused while a reminder is sent', async (t) => {
  // Regression: `next_stage` was the stage of the reminder that had just been sent.
  const engine = await startEngine(t)
  const { testAccount, deps } = engine
  const { backend, accountId } = testAccount
  const { id: debtor_id } = await engine.createDebtor()
  const { id: disputed } = await engine.createInvoice('2026-11-19', { debtor_id })
  const { id: partlyPaid } = await engine.createInvoice('2026-11-19', { debtor_id })
  await engine.plan(MORNING)
  const mailer: Mailer = {
    ...deps.mailer,
    async send(...handOver) {
      const actionContext = { actor: OPERATOR, now: backend.now }
      await backend.database.transaction((tx) =>
        disputeInvoice(tx, accountId, disputed, 'wrong amount', actionContext),
      )
      const payment = { invoice_id: partlyPaid, currency: 'EUR', amount: 10 }
      await testAccount.create('/api/v1/payments', payment)
      return deps.mailer.send(...handOver)
    },
  }
  await sendRound({ ...deps, mailer }, 1)
  await engine.plan('2026-11-24T08:01:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:sent'])
  const paused = { status: 'paused', stage: 'friendly', next_stage: 'reminder' }
  matches(t, await testAccount.read(`/api/v1/invoices/${disputed}`), {
    chasing: { ...paused, next_action_at: null, blocked_reason: 'disputed' },
  })
  matches(t, await testAccount.read(`/api/v1/invoices/${partlyPaid}`), {
    chasing: {
      ...paused,
      next_action_at: '2026-12-01T08:00:00.000Z',
      blocked_reason: 'payment_received',
    },
  })
})
