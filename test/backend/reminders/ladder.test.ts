import t from 'tap'
import { type ActionContext, OPERATOR } from '../../../backend/accounts/audit.ts'
import type { Transaction } from '../../../backend/database/tables.ts'
import { changeChasingSettings } from '../../../backend/reminders/chasing-settings.ts'
import { changeProfile } from '../../../backend/reminders/reminder-content.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'

t.test('each stage from friendly to final is sent once about an overdue invoice', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-02')
  // The engine runs twice a day for seven weeks. Amsterdam is one hour ahead of UTC.
  for (let day = 3; day < 52; day++) {
    for (const hour of ['08', '14']) {
      const date = new Date(Date.UTC(2026, 10, day)).toISOString().slice(0, 10)
      await engine.planAndSendAt(`${date}T${hour}:00:00.000Z`)
      if ((await engine.messageLog()).at(-1)?.endsWith(':awaiting_approval')) {
        await engine.decide({ approve: true })
      }
    }
  }
  t.strictSame(await engine.messageLog(), [
    'friendly:sent',
    'reminder:sent',
    'firm:sent',
    'final:sent',
  ])
  t.strictSame(
    (await engine.messages()).map(({ sent_at: at }) => at),
    [
      '2026-11-05T08:00:00.000Z',
      '2026-11-12T08:00:00.000Z',
      '2026-11-23T14:00:00.000Z',
      '2026-12-07T14:00:00.000Z',
    ],
    'the last two are sent at the first run after their approval',
  )
  t.equal(engine.smtp.mails.length, 4)
  matches(t, (await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)).chasing, {
    status: 'active',
    stage: 'final',
    next_stage: null,
    next_action_at: null,
    last_message_at: '2026-12-07T14:00:00.000Z',
    blocked_reason: null,
  })
})

t.test('a new invoice shows its next reminder before the planner has run', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoice('2026-11-26')
  matches(t, invoice.chasing, {
    status: 'active',
    next_stage: 'friendly',
    next_action_at: '2026-11-30T07:00:00.000Z',
  })
  await engine.plan('2026-11-21T10:20:00.000Z')
  t.strictSame(
    await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`),
    invoice,
    'nothing changes',
  )
})

t.test('a debtor gets at most one message a day, and none at night', async (t) => {
  const engine = await startEngine(t)
  const { id: debtor_id } = await engine.createDebtor()
  await engine.createInvoice('2026-11-19', { debtor_id })
  await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
  await engine.createInvoice('2026-11-18', { debtor_id })
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.equal(engine.smtp.mails.length, 1)
  await engine.planAndSendAt('2026-11-24T23:30:00.000Z')
  t.equal(engine.smtp.mails.length, 1, 'the next day has begun, but not its working hours')
  await engine.planAndSendAt('2026-11-25T07:00:00.000Z')
  t.equal(engine.smtp.mails.length, 2)
})

t.test('reminders follow a new time zone of the account', async (t) => {
  // Regression: the next reminder kept the time of the old time zone, at which business hours in Auckland are over, so
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

t.test('approved reminders follow new business hours', async (t) => {
  // Regression: a reminder that waited for business hours kept waiting until the business hours of the old time zone,
  // or until the end of a holiday that had been removed.
  type Change = (
    tx: Transaction,
    accountId: string,
    actionContext: ActionContext,
  ) => Promise<unknown>
  const move: Change = (tx, accountId, actionContext) =>
    changeProfile(tx, accountId, { timezone: 'Pacific/Auckland' }, actionContext)
  const setHolidays =
    (...holidays: string[]): Change =>
    (tx, accountId, actionContext) =>
      changeChasingSettings(tx, accountId, { holidays }, actionContext)
  for (const [before, change, sentAt] of [
    [setHolidays(), move, '2026-11-24T20:00:00.000Z'],
    [setHolidays('2026-11-25'), setHolidays(), '2026-11-25T07:00:00.000Z'],
  ] as const) {
    const engine = await startEngine(t)
    const { backend, accountId } = engine.testAccount
    const perform = (work: Change) =>
      backend.database.transaction((tx) =>
        work(tx, accountId, { actor: OPERATOR, now: backend.now }),
      )
    await engine.createInvoiceAwaitingApproval()
    await perform(before)
    backend.now = new Date('2026-11-24T20:00:00.000Z')
    await engine.decide({ approve: true })
    await engine.send()
    await perform(change)
    await engine.planAndSendAt(sentAt)
    t.equal((await engine.messageLog()).at(-1), 'firm:sent')
  }
})
