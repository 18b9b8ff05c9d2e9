// The safety rails, which are the checks that can block a reminder, apply until the reminder is sent.

import t from 'tap'
import { setStatus } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { nextRevision } from '../../../backend/database/revision.ts'
import { pauseChasing } from '../../../backend/debtors/chasing.ts'
import { editDebtor } from '../../../backend/debtors/details.ts'
import { resumeInvoice } from '../../../backend/invoices/actions.ts'
import { listPendingApprovals } from '../../../backend/reminders/approvals.ts'
import { matches } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'

/** A Tuesday morning in Amsterdam. */
const MORNING = '2026-11-24T08:00:00.000Z'

const pay = (engine: Engine, invoice: { id: string }, amount: number) =>
  engine.testAccount.create('/api/v1/payments', { invoice_id: invoice.id, amount, currency: 'EUR' })

const suppressions = async (engine: Engine) =>
  (await engine.messages()).map((row) => row.suppression_reason)

t.test('a payment between planning and sending cancels the message', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  t.strictSame(await engine.messageLog(), ['friendly:scheduled'])
  const { effects } = await pay(engine, invoice, 10_000)
  t.equal(effects.messages_cancelled, 1)
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  await engine.planAndSendAt('2027-01-12T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:cancelled'])
  t.equal(engine.smtp.mails.length, 0)
})

t.test('seven days after a partial payment, the same stage is sent for the rest', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  await pay(engine, invoice, 4000)
  await engine.planAndSendAt('2026-11-30T09:00:00.000Z')
  const { chasing } = await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)
  matches(t, chasing, {
    status: 'paused',
    next_action_at: '2026-12-01T08:00:00.000Z',
    blocked_reason: 'payment_received',
  })
  await engine.planAndSendAt('2026-12-01T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:cancelled', 'friendly:sent'])
  t.equal((await engine.messages()).at(-1)?.amount_due, 6000)
  matches(t, (await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)).chasing, {
    status: 'active',
    stage: 'friendly',
    next_stage: 'reminder',
    blocked_reason: null,
  })
})

t.test('the other invoices of a cancelled message get a new message immediately', async (t) => {
  const engine = await startEngine(t)
  const { id: debtor_id } = await engine.createDebtor()
  const paid = await engine.createInvoice('2026-11-18', { debtor_id })
  const other = await engine.createInvoice('2026-11-19', { debtor_id })
  await engine.plan(MORNING)
  t.strictSame(await engine.messageLog(), ['friendly:scheduled'])
  engine.testAccount.backend.now = new Date('2026-11-24T20:00:00.000Z')
  await pay(engine, paid, 10_000)
  const { data } = await engine.testAccount.read('/api/v1/messages?sort=created_at')
  matches(t, data, [
    { status: 'cancelled', invoice_ids: [paid.id, other.id] },
    { status: 'scheduled', invoice_ids: [other.id], scheduled_for: '2026-11-25T07:00:00.000Z' },
  ])
  await engine.planAndSendAt('2026-11-25T07:00:00.000Z')
  t.equal(engine.smtp.mails.length, 1)
})

t.test('the kill switch blocks reminders, and its release sends no backlog', async (t) => {
  for (const installation of [false, true]) {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    await engine.killSwitch({ on: true, reason: 'A wrong bank account' }, installation)
    await engine.send()
    t.strictSame(await suppressions(engine), ['kill_switch'])
    await engine.planAndSendAt('2026-12-08T09:00:00.000Z')
    await engine.planAndSendAt('2027-01-12T09:00:00.000Z')
    t.equal(
      (await engine.messages()).length,
      1,
      'no reminder is planned while the switch is active',
    )
    await engine.killSwitch({ on: false }, installation)
    await engine.planAndSendAt('2027-01-13T09:00:00.000Z')
    await engine.planAndSendAt('2027-01-14T09:00:00.000Z')
    t.strictSame(
      await engine.messageLog(),
      ['friendly:suppressed', 'friendly:sent'],
      'one reminder is sent after the release',
    )
    t.equal(engine.smtp.mails.length, 1)
  }
})

t.test(
  'a message that was scheduled when the kill switch was activated is replaced after the release',
  async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    await engine.killSwitch({ on: true, reason: 'A slip of the hand' })
    await engine.killSwitch({ on: false })
    await engine.send('2026-11-24T08:00:01.000Z')
    t.strictSame(await suppressions(engine), ['kill_switch'])
    const { chasing } = await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)
    t.equal(chasing.blocked_reason, null, 'nothing blocks the next reminder')
    await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
    t.strictSame(
      await engine.messageLog(),
      ['friendly:suppressed', 'friendly:sent'],
      'the reminder is planned again',
    )
  },
)

t.test(
  'nothing is sent for a read-only account; when it is active again, the suppressed stage is sent once',
  async (t) => {
    const engine = await startEngine(t)
    const { backend, accountId } = engine.testAccount
    const setTo = (status: 'suspended' | 'active') =>
      backend.database.transaction((tx) =>
        setStatus(tx, accountId, status, { actor: OPERATOR, now: backend.now }),
      )
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    await setTo('suspended')
    await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
    t.strictSame(await suppressions(engine), ['account_read_only'])
    await setTo('active')
    await engine.planAndSendAt('2027-01-12T09:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:suppressed', 'friendly:sent'])
  },
)

t.test('debtors of a demo account or with a reserved address are never contacted', async (t) => {
  const engine = await startEngine(t)
  const demo = await engine.testAccount.otherAccount({ isDemo: true })
  const debtor = await demo.createDebtor({ email: 'ap@jansen-bouw.nl' })
  await demo.createInvoice({
    debtor_id: debtor.id,
    issue_date: '2026-09-01',
    due_date: '2026-11-19',
  })
  await engine.createInvoice('2026-11-19', {
    debtor_id: (await engine.createDebtor({ email: 'ap@jansen.example' })).id,
  })
  await engine.planAndSendAt(MORNING)
  await engine.planAndSendAt('2026-12-15T08:00:00.000Z')
  t.strictSame(await suppressions(engine), ['demo', 'demo'])
  t.equal(engine.smtp.connections(), 0)
})

t.test(
  'a reminder to a debtor without an address is logged once, and sent when the debtor has one',
  async (t) => {
    const engine = await startEngine(t)
    const { id: debtor_id } = await engine.testAccount.createDebtor({ email: null })
    const invoice = await engine.createInvoice('2026-11-19', { debtor_id })
    await engine.planAndSendAt(MORNING)
    await engine.planAndSendAt('2026-11-25T08:00:00.000Z')
    t.strictSame(await suppressions(engine), ['no_contact'])
    matches(t, (await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)).chasing, {
      next_stage: 'friendly',
      next_action_at: null,
      blocked_reason: 'no_contact',
    })
    const { backend, accountId } = engine.testAccount
    const actionContext = { actor: OPERATOR, now: backend.now }
    await backend.database.transaction((tx) =>
      editDebtor(tx, accountId, debtor_id, { email: 'ap@jansen-bouw.nl' }, actionContext),
    )
    await engine.planAndSendAt('2026-11-26T08:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:suppressed', 'friendly:sent'])
  },
)

t.test('a paused debtor gets no reminder until the pause ends', async (t) => {
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  const invoice = await engine.createInvoice('2026-11-19')
  const actionContext = { actor: OPERATOR, now: backend.now }
  const until = new Date('2026-12-02T09:30:00.000Z')
  await backend.database.transaction((tx) =>
    pauseChasing(
      tx,
      accountId,
      invoice.debtor_id,
      { reason: 'A plan was agreed', until },
      actionContext,
    ),
  )
  await engine.planAndSendAt(MORNING)
  t.strictSame(await suppressions(engine), ['debtor_paused'])
  await engine.planAndSendAt('2026-12-02T09:00:00.000Z')
  t.equal((await engine.messages()).length, 1)
  await engine.planAndSendAt(until.toISOString())
  t.strictSame(await engine.messageLog(), ['friendly:suppressed', 'friendly:sent'])
  matches(t, (await engine.testAccount.read(`/api/v1/debtors/${invoice.debtor_id}`)).chasing, {
    status: 'active',
    reason: null,
    until: null,
  })
})

t.test(
  'an invoice that is blocked as history is not chased until a person resumes it',
  async (t) => {
    const engine = await startEngine(t)
    const { backend, accountId } = engine.testAccount
    const old = await engine.createInvoice('2026-11-10', { chase_if_overdue: false })
    const recent = await engine.createInvoice('2026-11-21', { chase_if_overdue: false })
    matches(t, old.chasing, { status: 'stopped', blocked_reason: 'history' })
    matches(t, recent.chasing, { status: 'active', blocked_reason: null })
    await engine.planAndSendAt('2026-11-25T08:00:00.000Z')
    t.strictSame(
      (await engine.messages()).map(({ debtor_id }) => debtor_id),
      [recent.debtor_id],
    )
    await backend.database.transaction((tx) =>
      resumeInvoice(tx, accountId, old.id, { actor: OPERATOR, now: backend.now }),
    )
    await engine.planAndSendAt('2026-11-25T09:00:00.000Z')
    t.equal(engine.smtp.mails.length, 2)
  },
)

t.test('a firm reminder is never sent without approval', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-01')
  await engine.planAndSendAt('2026-11-04T08:00:00.000Z')
  await engine.planAndSendAt('2026-11-11T08:00:00.000Z')
  for (let day = 23; day <= 30; day++) await engine.planAndSendAt(`2026-11-${day}T10:00:00.000Z`)
  t.strictSame(await engine.messageLog(), [
    'friendly:sent',
    'reminder:sent',
    'firm:suppressed',
    'firm:awaiting_approval',
  ])
  t.equal((await engine.messages())[2]?.suppression_reason, 'approval_expired')
  t.equal(engine.smtp.mails.length, 2)
})

t.test('a message is sent only with the text that was approved', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-01')
  await engine.planAndSendAt('2026-11-04T08:00:00.000Z')
  await engine.planAndSendAt('2026-11-11T08:00:00.000Z')
  await engine.planAndSendAt('2026-11-23T20:00:00.000Z')
  await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
  const { backend, accountId } = engine.testAccount
  const [seen] = await listPendingApprovals(backend.database.read, accountId)
  await engine.decide({ approve: true })
  await pay(engine, invoice, 1000)
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  await engine.planAndSendAt('2026-12-01T09:00:00.000Z')
  t.strictSame((await engine.messageLog()).slice(2), ['firm:cancelled', 'firm:awaiting_approval'])
  await engine.decide({ approve: true })
  await engine.planAndSendAt('2026-12-01T10:00:00.000Z')
  const [, , lapsed, sent] = await engine.messages()
  matches(t, lapsed, { approval_status: 'lapsed', amount_due: 10_000, body: seen?.message.body })
  matches(t, sent, { status: 'sent', approval_status: 'approved', amount_due: 9000 })
  const mail = engine.smtp.mails.at(-1)?.mail
  t.equal(mail?.text?.replaceAll('\r\n', '\n').trim(), sent?.body?.trim())
})

t.test(
  'an approved message whose stored text differs from the approved text is not sent',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoiceAwaitingApproval()
    await engine.decide({ approve: true })
    const approved = (await engine.messages()).at(-1)
    await engine.service.setMessage(approved?.id ?? '', { body: 'Pay to another account.' })
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.strictSame((await engine.messageLog()).slice(2), ['firm:cancelled', 'firm:awaiting_approval'])
  },
)

t.test('after an unsubscription, a new address gets no reminder until confirmed', async (t) => {
  const engine = await startEngine(t)
  const { testAccount, service } = engine
  const { backend, accountId } = testAccount
  const { debtor_id } = await engine.createInvoice('2026-11-19')
  const { email } = await backend.database.read
    .selectFrom('debtors')
    .select('email')
    .where('id', '=', debtor_id)
    .executeTakeFirstOrThrow()
  const click = {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'List-Unsubscribe=One-Click',
  }
  await service.request('POST', service.unsubscribePathOf(email ?? ''), click)
  await backend.database.transaction((tx) =>
    editDebtor(
      tx,
      accountId,
      debtor_id,
      { email: 'books@jansen-bouw.nl' },
      { actor: OPERATOR, now: backend.now },
    ),
  )
  await engine.planAndSendAt(MORNING)
  t.strictSame(await suppressions(engine), ['unsubscribed'])
  await service.clearSuppression(debtor_id)
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:suppressed', 'friendly:sent'])
})

t.test('an approval lapses if the address of the debtor changes', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoiceAwaitingApproval()
  await engine.decide({ approve: true })
  await engine.testAccount.backend.database.transaction((tx) =>
    tx
      .updateTable('debtors')
      .set({ email: 'books@jansen-bouw.nl', ...nextRevision(tx, '2026-11-24T08:30:00.000Z') })
      .where('id', '=', invoice.debtor_id)
      .execute(),
  )
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.strictSame((await engine.messageLog()).slice(2), ['firm:cancelled', 'firm:awaiting_approval'])
  t.equal((await engine.messages()).at(-1)?.recipient, 'books@jansen-bouw.nl')
})

t.test(
  'the stored facts of a message keep the names that the previous version reads',
  async (t) => {
    const engine = await startEngine(t)
    await engine.createInvoice('2026-11-19')
    await engine.plan(MORNING)
    const { database } = engine.testAccount.backend
    const [reminder] = await database.read.selectFrom('reminders').select('facts').execute()
    // During an upgrade, the previous version may send a message that this version planned.
    t.strictSame(Object.keys(JSON.parse(reminder?.facts ?? '')).toSorted(), [
      ...['expiresAt', 'invoices', 'recipient', 'stage', 'timesPutOn'],
    ])
    await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:sent'])
  },
)

t.test('a reminder that no longer waits is not sent, even if its send check is due', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const [message] = await engine.messages()
  await engine.service.setMessage(message?.id ?? '', { status: 'cancelled' })
  await engine.send()
  t.strictSame(await engine.messageLog(), ['friendly:cancelled'])
  t.equal(engine.smtp.mails.length, 0)
  const { database } = engine.testAccount.backend
  const reminders = await database.read.selectFrom('reminders').select('run_at').execute()
  t.strictSame(reminders, [{ run_at: null }], 'no other send check is scheduled')
})
