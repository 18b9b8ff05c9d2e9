// Workers send each message once, when it is due, and try few messages while the mail server is unavailable.
import t from 'tap'
import { databaseOf } from '../../../backend/database/database.ts'
import { unavailable } from '../../../backend/database/unavailable.ts'
import { REMINDER_LEASES } from '../../../backend/reminders/sending/leases.ts'
import { sendRound, startSendWorker } from '../../../backend/reminders/sending/send-worker.ts'
import { matches } from '../../fixtures/matches.ts'
import { recordLog } from '../../fixtures/recorded-log.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'
import { until } from '../../fixtures/service/until.ts'

const MORNING = '2026-11-24T08:00:00.000Z'
const HOUR_MS = 3_600_000

const messageIds = (engine: Engine) => engine.smtp.mails.map(({ mail }) => mail.messageId)

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

// Regression: a second line of the log quoted the response of the mail server with the address.
t.test('the log of a rejected reminder does not contain the address', async (t) => {
  const engine = await startEngine(t)
  const customer = 'ap1@jansen-bouw.nl'
  await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  engine.smtp.failAt('rcpt', { code: 550, text: `5.1.1 <${customer}>: User unknown` })
  const { log, lines } = recordLog<object>()
  await sendRound({ ...engine.deps, log }, 1)
  t.strictSame(await engine.messageLog(), ['friendly:bounced'])
  t.notOk(JSON.stringify(lines).includes(customer))
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
  t.equal(await next(MORNING, 2499), undefined, 'undefined if the next poll is earlier')
  t.equal(await next(due.toISOString(), 2500), undefined, 'undefined if the message is due now')
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
    unavailableRetryMs: 5,
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

/** Calls `fail` before each transaction that records the result of a hand-over; the transaction fails if it throws. */
function failRecording(engine: Engine, fail: (attempt: number) => void): Engine['deps'] {
  const { database } = engine.deps
  let transactions = 0
  return {
    ...engine.deps,
    database: {
      ...databaseOf(database, engine.testAccount.accountId),
      async transaction(work, scope) {
        transactions++
        // The first transaction is the send check.
        if (transactions > 1) fail(transactions - 1)
        return database.transaction(work, scope)
      },
    },
  }
}

t.test('the result of a hand-over is recorded when the database is available again', async (t) => {
  // Regression: if the transaction with the result failed once, the message was sent again at the end of its lease.
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const deps = failRecording(engine, (attempt) => {
    if (attempt <= 2) throw unavailable(new Error('the writer is busy'))
  })
  await sendRound({ ...deps, recordAgainMs: 1 }, 1)
  t.strictSame(await engine.messageLog(), ['friendly:sent'])
  await engine.send('2026-11-24T08:10:00.000Z')
  t.equal(engine.smtp.mails.length, 1)
})

t.test('a worker stops recording a result at the end of its time', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  let attempts = 0
  const deps = failRecording(engine, (attempt) => {
    attempts = attempt
    if (attempt === 3) engine.testAccount.backend.now = new Date('2026-11-24T08:01:15.000Z')
    throw unavailable(new Error('the writer is busy'))
  })
  await sendRound({ ...deps, recordAgainMs: 1 }, 1)
  t.equal(attempts, 3)
  t.strictSame(await engine.messageLog(), ['friendly:sending'])
})

t.test('a worker that stops does not wait for a database that is unavailable', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-19')
  await engine.plan(MORNING)
  const stopping = new AbortController()
  const deps = failRecording(engine, () => {
    // The worker is stopped during the pause after the first attempt.
    setImmediate(() => stopping.abort())
    throw unavailable(new Error('the writer is busy'))
  })
  await sendRound({ ...deps, recordAgainMs: HOUR_MS }, 1, { signal: stopping.signal })
  t.strictSame(await engine.messageLog(), ['friendly:sending'])
})
