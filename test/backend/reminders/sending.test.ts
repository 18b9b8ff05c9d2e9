// A hand-over goes wrong in every way that it can; nothing is lost, and no debtor gets a message three times.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import { openGate } from '../../../backend/reminders/sending/gate.ts'
import { recordHandOff } from '../../../backend/reminders/sending/hand-off.ts'
import { REMINDERS } from '../../../backend/reminders/sending/leases.ts'
import { sendRound, startSendWorker } from '../../../backend/reminders/sending/send-worker.ts'
import { matches } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'
import { until } from '../../fixtures/service/until.ts'

const MORNING = '2026-11-24T08:00:00.000Z'
const HOUR_MS = 3_600_000

const messageIds = (engine: Engine) => engine.smtp.mails.map(({ mail }) => mail.messageId)

/** A worker takes the message through the gate, and is killed before it can do anything more. */
async function dieAfterGate(engine: Engine) {
  const { database } = engine.books.backend
  const [message] = await engine.messages()
  const departure = await database.transaction((tx) =>
    openGate(tx, engine.deps, message?.id ?? '', engine.books.backend.now),
  )
  if (departure === undefined) throw new Error('it did not leave')
  return departure
}

t.test('two workers at once send one', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 5; n++) await engine.invoice('2026-11-19')
  await engine.plan(MORNING)
  await Promise.all([
    sendRound(engine.deps, 4),
    sendRound(engine.deps, 4),
    sendRound(engine.deps, 4),
  ])
  t.equal(engine.smtp.mails.length, 5)
  t.equal(new Set(messageIds(engine)).size, 5)
  t.ok((await engine.log()).every((entry) => entry === 'friendly:sent'))
})

t.test('two planners at once plan one', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 5; n++) await engine.invoice('2026-11-19')
  await Promise.all([engine.plan(MORNING), engine.plan(MORNING), engine.plan(MORNING)])
  t.equal((await engine.messages()).length, 5)
})

t.test('killed between hand-over and mark: one repeat, under the same Message-ID', async (t) => {
  const engine = await startEngine(t)
  await engine.invoice('2026-11-19')
  await engine.plan(MORNING)
  for (const at of ['2026-11-24T08:00:00.000Z', '2026-11-24T08:10:00.000Z']) {
    engine.books.backend.now = new Date(at)
    const { mail, startBefore } = await dieAfterGate(engine)
    await engine.deps.mailer.send(mail, { startBefore })
  }
  await engine.send('2026-11-24T08:20:00.000Z')
  await engine.send('2026-11-24T08:30:00.000Z')
  t.equal(engine.smtp.mails.length, 2)
  t.equal(new Set(messageIds(engine)).size, 1)
  t.strictSame(await engine.log(), ['friendly:failed'], 'it is not claimed that it arrived')
  await engine.at('2026-12-01T08:20:00.000Z')
  t.strictSame(await engine.log(), ['friendly:failed', 'reminder:sent'], 'and the ladder goes on')
})

t.test('killed before the hand-over: the message is sent when the lease has expired', async (t) => {
  const engine = await startEngine(t)
  await engine.invoice('2026-11-19')
  await engine.plan(MORNING)
  await dieAfterGate(engine)
  const { data } = await engine.books.read('/api/v1/messages')
  t.equal(data[0].status, 'queued', 'a lease is no state to clients')
  await engine.send('2026-11-24T08:01:00.000Z')
  t.equal(engine.smtp.mails.length, 0, 'it is somebody else’s still')
  await engine.send('2026-11-24T08:02:00.000Z')
  t.strictSame(await engine.log(), ['friendly:sent'])
})

t.test(
  'a message that was due is checked against the rails again, and keeps its stage',
  async (t) => {
    const engine = await startEngine(t)
    await engine.invoice('2026-11-19')
    await engine.plan(MORNING)
    await dieAfterGate(engine)
    await engine.killSwitch({ on: true, reason: 'A wrong bank account' })
    await engine.at('2026-11-24T08:02:00.000Z')
    matches(t, await engine.messages(), [
      {
        status: 'suppressed',
        suppression_reason: 'kill_switch',
        suppression_detail: /may have left/,
      },
    ])
    await engine.killSwitch({ on: false })
    await engine.at('2026-11-25T08:02:00.000Z')
    t.equal((await engine.messages()).length, 1, 'nobody is to be sent the same stage twice')
  },
)

t.test('a payment while it is leaving names it, and it is not planned again', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.invoice('2026-11-19')
  await engine.plan(MORNING)
  const departure = await dieAfterGate(engine)
  const { effects } = await engine.books.create('/api/v1/payments', {
    invoice_id: invoice.id,
    amount: 10_000,
    currency: 'EUR',
  })
  matches(t, effects, { messages_cancelled: 0, messages_in_flight: [departure.messageId] })
  const { database } = engine.books.backend
  const accepted = { outcome: 'accepted', providerMessageId: null } as const
  t.ok(
    await database.transaction((tx) =>
      recordHandOff(tx, departure, accepted, engine.books.backend.now),
    ),
  )
  t.strictSame(await engine.log(), ['friendly:sent'], 'what left is logged as it was')
  matches(t, (await engine.books.read(`/api/v1/invoices/${invoice.id}`)).chasing, {
    status: 'stopped',
    stage: 'friendly',
    next_stage: null,
  })
})

t.test(
  'the mail server is unavailable for an hour: nothing is lost, and retries are rare',
  async (t) => {
    const engine = await startEngine(t)
    for (let n = 0; n < 6; n++) await engine.invoice('2026-11-19')
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
    t.ok((await engine.log()).every((entry) => entry === 'friendly:sent'))
  },
)

t.test(
  'a server that is lost after the text may have accepted it: one repeat, then the outcome is unknown',
  async (t) => {
    const engine = await startEngine(t)
    await engine.invoice('2026-11-19')
    await engine.plan(MORNING)
    engine.smtp.failAt('data', 'drop')
    await engine.send()
    t.strictSame(await engine.log(), ['friendly:queued'])
    await engine.send('2026-11-24T08:30:00.000Z')
    await engine.send('2026-11-24T09:30:00.000Z')
    t.strictSame(await engine.log(), ['friendly:failed'])
    t.equal(engine.smtp.mails.length, 2)
    t.equal(new Set(messageIds(engine)).size, 1)
  },
)

t.test(
  'refused for now, it is tried again; refused for good, the address is left alone',
  async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.invoice('2026-11-19')
    engine.smtp.failAt('rcpt', { code: 450, text: '4.2.1 come back later' }, 1)
    await engine.at(MORNING)
    matches(t, await engine.messages(), [
      { status: 'queued', bounce_type: 'soft', soft_bounces: 1 },
    ])
    engine.smtp.failAt('rcpt', { code: 550, text: '5.1.1 no such user' }, 1)
    await engine.at('2026-11-24T09:00:00.000Z')
    matches(t, await engine.messages(), [
      { status: 'bounced', bounce_type: 'hard' },
      { status: 'suppressed', suppression_reason: 'bounced', sent_at: null },
    ])
    await engine.at('2026-12-24T09:00:00.000Z')
    t.equal(engine.smtp.mails.length, 0)
    const debtor = await engine.books.read(`/api/v1/debtors/${invoice.debtor_id}`)
    matches(t, debtor, { contactability: { email: 'bounced' }, chasing: { status: 'paused' } })
    await engine.reminding.clear(invoice.debtor_id)
    await engine.at('2026-12-28T09:00:00.000Z')
    t.equal((await engine.log()).at(-1), 'friendly:sent', 'nobody had been reminded yet')
  },
)

t.test('a debtor gets one message a day, and none at night', async (t) => {
  const engine = await startEngine(t)
  const { id: debtor_id } = await engine.debtor()
  await engine.invoice('2026-11-19', { debtor_id })
  await engine.at(MORNING)
  await engine.invoice('2026-11-18', { debtor_id })
  await engine.at('2026-11-24T09:00:00.000Z')
  t.equal(engine.smtp.mails.length, 1)
  await engine.at('2026-11-24T23:30:00.000Z')
  t.equal(engine.smtp.mails.length, 1, 'the next day has begun, but not its working hours')
  await engine.at('2026-11-25T07:00:00.000Z')
  t.equal(engine.smtp.mails.length, 2)
})

t.test('a message waits unchanged while another to its debtor is being sent', async (t) => {
  const engine = await startEngine(t)
  const { id: debtor_id } = await engine.debtor()
  const { id: invoice_id } = await engine.invoice('2026-11-19', { debtor_id })
  await engine.plan(MORNING)
  await dieAfterGate(engine)
  const payment = { invoice_id, amount: 10_000, currency: 'EUR' }
  await engine.books.create('/api/v1/payments', payment)
  await engine.invoice('2026-11-18', { debtor_id })
  await engine.plan(MORNING)
  const [, before] = await engine.messages()
  await engine.send('2026-11-24T08:00:30.000Z')
  const [, after] = await engine.messages()
  matches(t, before, { stage: 'friendly', status: 'scheduled' })
  t.strictSame(after, before, 'nobody is told a new time every minute')
  await engine.send('2026-11-24T08:02:00.000Z')
  await engine.send('2026-11-24T08:03:00.000Z')
  const log = async () => (await engine.log()).slice(1)
  t.strictSame(await log(), ['friendly:scheduled'], 'the other may have arrived today')
  await engine.at('2026-11-25T08:00:00.000Z')
  t.strictSame(await log(), ['friendly:sent'])
})

t.test('a planned message wakes the worker', async (t) => {
  const engine = await startEngine(t)
  await engine.invoice('2026-11-18')
  engine.books.backend.now = new Date(MORNING)
  const { database } = engine.books.backend
  const before = database.activity().committed
  const worker = startSendWorker({ ...engine.deps, isOnly: true, pollMs: HOUR_MS })
  t.teardown(() => worker.stop())
  await until(() => database.activity().committed > before, 'the worker to be prepared')
  await engine.plan(MORNING)
  await until(() => engine.smtp.mails.length === 1, 'the message')
})

t.test('the worker knows when the next message is due', async (t) => {
  const engine = await startEngine(t)
  await engine.invoice('2026-11-18')
  await engine.plan(MORNING)
  const { database } = engine.books.backend
  const due = new Date('2026-11-24T08:00:02.500Z')
  await database.transaction((tx) =>
    tx.updateTable('reminders').set({ run_at: due.toISOString() }).execute(),
  )
  const next = (at: string, horizonMs: number) =>
    REMINDERS.findNextRun(database.read, new Date(at), horizonMs)
  t.strictSame(await next(MORNING, 2500), due)
  t.equal(await next(MORNING, 2499), undefined, 'later than the next poll')
  t.equal(await next(due.toISOString(), 2500), undefined, 'due now')
})

t.test('a message that cannot be written does not keep the others from leaving', async (t) => {
  const engine = await startEngine(t)
  await engine.invoice('2026-11-18')
  await engine.invoice('2026-11-18')
  await engine.plan(MORNING)
  const { database } = engine.books.backend
  const [broken] = await engine.messages()
  await database.transaction((tx) =>
    tx
      .updateTable('reminders')
      .set({ facts: '{' })
      .where('message_id', '=', broken?.id ?? '')
      .execute(),
  )
  const worker = startSendWorker({ ...engine.deps, isOnly: true, pollMs: 5 })
  await until(() => engine.smtp.mails.length === 1, 'the other one')
  await worker.stop()
  t.strictSame(await engine.log(), ['friendly:scheduled', 'friendly:sent'])
})

t.test(
  'paid and reopened while its worker is dead, it is planned anew and sent once',
  async (t) => {
    const engine = await startEngine(t)
    const invoice = await engine.invoice('2026-11-19')
    await engine.plan(MORNING)
    await dieAfterGate(engine)
    const { backend, accountId } = engine.books
    const payment = await engine.books.create('/api/v1/payments', {
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
    await engine.at('2026-11-24T10:00:00.000Z')
    await engine.at('2026-11-25T10:00:00.000Z')
    t.strictSame(await engine.log(), ['friendly:cancelled', 'friendly:sent'])
  },
)

t.test('a relay that denies some recipients keeps no other waiting', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 7; n++) await engine.invoice('2026-11-19')
  await engine.plan(MORNING)
  engine.books.backend.now = new Date(MORNING)
  const denied = { code: 554, text: '5.7.1 Relay access denied' }
  engine.smtp.failAt('rcpt', denied, 2)
  matches(t, await sendRound(engine.deps, 1), { isUnavailable: false })
  t.equal(engine.smtp.mails.length, 5)
  t.equal((await engine.log()).filter((entry) => entry === 'friendly:queued').length, 2)

  engine.smtp.failAt('rcpt', denied)
  for (let n = 0; n < 5; n++) await engine.invoice('2026-11-19')
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

t.test('a worker notices by itself that the mail server is back', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 3; n++) await engine.invoice('2026-11-19')
  await engine.plan(MORNING)
  await engine.smtp.stop()
  const worker = startSendWorker({ ...engine.deps, isOnly: true, pollMs: 5, unavailableMs: 5 })
  t.teardown(() => worker.stop())
  await until(
    async () => (await engine.log()).every((entry) => entry === 'friendly:queued'),
    'every message was tried',
  )
  await engine.smtp.start()
  engine.books.backend.now = new Date('2026-11-24T09:00:00.000Z')
  await until(() => engine.smtp.mails.length === 3, 'all have left')
})
