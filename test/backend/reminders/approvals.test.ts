import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { resumeInvoice } from '../../../backend/invoices/actions.ts'
import {
  decideApproval,
  listPendingApprovals,
  type PendingApproval,
  readStatusHistory,
} from '../../../backend/reminders/approvals.ts'
import { previewReminders } from '../../../backend/reminders/preview.ts'
import { takeBackDecision } from '../../../backend/reminders/take-back-decision.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'

/** Starts on a Tuesday morning, with an invoice whose firm reminder waits for approval. */
async function startWithApproval(t: Parameters<typeof startEngine>[0]) {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoiceAwaitingApproval()
  const [approval] = await pendingApprovals(engine)
  if (approval === undefined) throw new Error('nothing waits for approval')
  return { engine, invoice, approval }
}

function pendingApprovals({ testAccount }: Engine): Promise<PendingApproval[]> {
  return listPendingApprovals(testAccount.backend.database.read, testAccount.accountId)
}

function decide(
  { testAccount }: Engine,
  id: string,
  decision: Parameters<typeof decideApproval>[3],
) {
  const actionContext = { actor: OPERATOR, now: testAccount.backend.now }
  return testAccount.backend.database.transaction((tx) =>
    decideApproval(tx, testAccount.accountId, id, decision, actionContext),
  )
}

t.test('an approval shows text, recipient, amount and history of its reminder', async (t) => {
  const { engine, invoice, approval } = await startWithApproval(t)
  matches(t, approval, {
    message: { stage: 'firm', recipient: 'ap1@jansen-bouw.nl', amount_due: 10_000 },
    debtorName: 'Jansen Bouw B.V.',
    invoices: [{ id: invoice.id, amountDue: 10_000, dueDate: '2026-11-01' }],
    expiresAt: '2026-12-01T08:00:00.000Z',
  })
  matches(t, approval.message.body, containing(invoice.number))
  matches(t, approval.html, /<html/)
  t.ok((await engine.service.events()).includes('message.awaiting_approval'))
  await decide(engine, approval.message.id, { approve: true, seenDigest: approval.contentDigest })
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  const { read } = engine.testAccount.backend.database
  const history = await readStatusHistory(read, engine.testAccount.accountId, approval.message.id)
  t.strictSame(
    history.map(({ status }) => status),
    ['awaiting_approval', 'approved', 'sending', 'sent'],
  )
  t.strictSame(await engine.service.auditActions('message.'), ['message.approved'])
  const { data } = await engine.testAccount.read('/api/v1/messages?stage=firm')
  matches(t, data[0].approval, {
    required: true,
    status: 'approved',
    decided_by: 'operator',
    decided_at: '2026-11-24T08:00:00.000Z',
  })
})

t.test(
  'the preview shows when a message that waits for approval would be sent if approved now',
  async (t) => {
    const { engine, approval } = await startWithApproval(t)
    const { read } = engine.testAccount.backend.database
    const previewedAt = async (instant: string) => {
      const messages = await previewReminders(
        read,
        engine.testAccount.accountId,
        new Date(instant),
        14,
      )
      return messages.find(({ storedMessage }) => storedMessage?.id === approval.message.id)?.at
    }
    t.equal(await previewedAt('2026-11-24T08:30:00.000Z'), '2026-11-24T08:30:00.000Z')
    t.equal(await previewedAt('2026-11-24T20:00:00.000Z'), '2026-11-25T07:00:00.000Z', 'at night')
    t.equal(await previewedAt('2026-11-28T08:30:00.000Z'), '2026-11-30T07:00:00.000Z', 'a Saturday')
    const later = await previewReminders(
      read,
      engine.testAccount.accountId,
      new Date('2026-12-05T08:30:00.000Z'),
      14,
    )
    matches(t, later, [
      { stage: 'firm', at: '2026-12-07T07:00:00.000Z' },
      { stage: 'final', at: '2026-12-14T07:00:00.000Z' },
    ])
  },
)

t.test('an approval is decided once', async (t) => {
  const { engine, approval } = await startWithApproval(t)
  const { id } = approval.message
  await decide(engine, id, { approve: true })
  await rejectsWith(t, decide(engine, id, { approve: true }), {
    code: 'approval_decided',
    status: 409,
  })
  await rejectsWith(t, decide(engine, id, { approve: false, reason: 'no' }), {
    code: 'approval_decided',
  })
  await rejectsWith(t, decide(engine, 'msg_none', { approve: true }), { code: 'not_found' })
})

t.test('a reminder whose text is not written yet cannot be approved', async (t) => {
  // Regression: the error said that the reminder awaited no decision, although its approval was pending.
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-01')
  await engine.planAndSendAt('2026-11-04T08:00:00.000Z')
  await engine.planAndSendAt('2026-11-11T08:00:00.000Z')
  await engine.plan('2026-11-24T08:00:00.000Z')
  const message = (await engine.messages()).at(-1)
  matches(t, message, { status: 'awaiting_approval', body: null })
  await rejectsWith(t, decide(engine, message?.id ?? '', { approve: true }), {
    code: 'approval_outdated',
    message: /^The text of the reminder is not written yet, so nothing was decided\./,
  })
})

t.test('if two people decide at the same time, one decision is rejected', async (t) => {
  const { engine, approval } = await startWithApproval(t)
  const { id } = approval.message
  const outcomes = await Promise.allSettled([
    decide(engine, id, { approve: true }),
    decide(engine, id, { approve: false, reason: 'they called' }),
  ])
  t.strictSame(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
})

t.test('a decision is rejected if the text has changed since the page was shown', async (t) => {
  const { engine, approval } = await startWithApproval(t)
  const seenDigest = `${approval.contentDigest}x`
  await rejectsWith(t, decide(engine, approval.message.id, { approve: true, seenDigest }), {
    code: 'approval_outdated',
    status: 409,
  })
})

t.test('a rejection requires a reason, and pauses the invoice until it is resumed', async (t) => {
  const { engine, invoice, approval } = await startWithApproval(t)
  const { id } = approval.message
  await rejectsWith(t, decide(engine, id, { approve: false, reason: ' ' }), {
    code: 'validation_failed',
  })
  await decide(engine, id, { approve: false, reason: 'They called: paid tomorrow' })
  await engine.planAndSendAt('2026-12-24T08:00:00.000Z')
  matches(t, (await engine.messages()).at(-1), {
    status: 'suppressed',
    suppression_reason: 'approval_rejected',
    suppression_detail: 'They called: paid tomorrow',
    approval_status: 'rejected',
  })
  matches(t, (await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)).chasing, {
    status: 'paused',
    stage: 'reminder',
    blocked_reason: 'approval_rejected',
  })
  const { backend, accountId } = engine.testAccount
  await backend.database.transaction((tx) =>
    resumeInvoice(tx, accountId, invoice.id, { actor: OPERATOR, now: backend.now }),
  )
  await engine.planAndSendAt('2026-12-28T08:00:00.000Z')
  t.equal((await engine.messageLog()).at(-1), 'firm:awaiting_approval', 'the same stage again')
})

t.test(
  'an approval expires after seven days without a decision, and is requested again',
  async (t) => {
    const { engine, approval } = await startWithApproval(t)
    engine.testAccount.backend.now = new Date('2026-12-01T08:00:00.000Z')
    await rejectsWith(t, decide(engine, approval.message.id, { approve: true }), {
      code: 'approval_decided',
    })
    await engine.planAndSendAt('2026-12-01T08:00:00.000Z')
    matches(t, (await engine.messages()).slice(2), [
      { status: 'suppressed', suppression_reason: 'approval_expired', approval_status: 'expired' },
      { status: 'awaiting_approval', approval_status: 'pending', days_past_due: 30 },
    ])
    t.equal((await pendingApprovals(engine)).length, 1)
  },
)

t.test('an invoice is blocked by its approval only while nobody has decided', async (t) => {
  const { engine, invoice, approval } = await startWithApproval(t)
  const { backend, accountId } = engine.testAccount
  const chasing = async () =>
    (await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)).chasing
  matches(t, await chasing(), { next_stage: 'firm', blocked_reason: 'awaiting_approval' })
  // In the evening, the approved reminder waits for the next business hours.
  backend.now = new Date('2026-11-24T20:00:00.000Z')
  await decide(engine, approval.message.id, { approve: true })
  await engine.planAndSendAt('2026-11-24T20:00:00.000Z')
  t.equal((await engine.messageLog()).at(-1), 'firm:approved')
  // Regression: the invoice awaited approval until the approved reminder was sent.
  matches(t, await chasing(), { next_stage: 'firm', blocked_reason: null })
  await backend.database.transaction((tx) =>
    takeBackDecision(tx, accountId, approval.message.id, { actor: OPERATOR, now: backend.now }),
  )
  matches(t, await chasing(), { next_stage: 'firm', blocked_reason: 'awaiting_approval' })
})

t.test(
  'if an approval is taken back, other reminders to the customer are sent on time',
  async (t) => {
    const { engine, invoice, approval } = await startWithApproval(t)
    const { backend, accountId } = engine.testAccount
    const { debtor_id } = await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)
    // The friendly reminder of this invoice is due the next day.
    await engine.createInvoice('2026-11-22', { debtor_id })
    await engine.plan('2026-11-24T20:00:00.000Z')
    await engine.decide({ approve: true })
    // In the morning, the approved reminder is still waiting, so the friendly one is not planned.
    await engine.plan('2026-11-25T07:00:00.000Z')
    t.equal((await engine.messageLog()).at(-1), 'firm:approved')
    await backend.database.transaction((tx) =>
      takeBackDecision(tx, accountId, approval.message.id, { actor: OPERATOR, now: backend.now }),
    )
    await engine.plan('2026-11-25T09:00:00.000Z')
    await engine.send()
    // Regression: the friendly reminder was sent only after the approval period had ended, a week later.
    t.strictSame((await engine.messageLog()).slice(-2), ['firm:awaiting_approval', 'friendly:sent'])
  },
)

t.test('the preview shows one reminder a day to each customer', async (t) => {
  const engine = await startEngine(t)
  const invoice = await engine.createInvoiceAwaitingApproval()
  const { debtor_id } = invoice
  // The friendly reminder of this invoice is due on the day on which the firm reminder awaits approval.
  await engine.createInvoice('2026-11-21', { debtor_id })
  const { backend, accountId } = engine.testAccount
  const days = async () => {
    const messages = await previewReminders(backend.database.read, accountId, backend.now, 14)
    return messages.map(({ at, stage }) => `${stage}: ${at.slice(0, 10)}`)
  }
  // Regression: the preview showed two reminders on one day, which the daily cap does not allow.
  backend.now = new Date('2026-11-24T09:00:00.000Z')
  t.strictSame((await days()).slice(0, 2), ['firm: 2026-11-24', 'friendly: 2026-11-25'])
  await engine.plan('2026-11-24T09:00:00.000Z')
  t.equal((await engine.messageLog()).at(-1), 'friendly:scheduled')
  t.strictSame((await days()).slice(0, 2), ['firm: 2026-11-24', 'friendly: 2026-11-25'])
  await engine.decide({ approve: true })
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  await engine.planAndSendAt('2026-11-25T09:00:00.000Z')
  t.strictSame(
    (await engine.messages()).slice(-2).map(({ stage, sent_at }) => `${stage}: ${sent_at}`),
    ['firm: 2026-11-24T09:00:00.000Z', 'friendly: 2026-11-25T09:00:00.000Z'],
    'the reminders are sent on these days',
  )
})
