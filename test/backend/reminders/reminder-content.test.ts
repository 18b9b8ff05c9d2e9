// The text of a reminder can change until a person approves it. Then exactly the approved text is sent.
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { DebtorDetails } from '../../../backend/debtors/details.ts'
import type { WordingKey } from '../../../backend/mail/wording/account-wordings.ts'
import { defaultWording } from '../../../backend/mail/wording/wording.ts'
import { listPendingApprovals, type PendingApproval } from '../../../backend/reminders/approvals.ts'
import {
  changeDebtorDetails,
  changePaymentDetails,
  changeProfile,
  changeWording,
} from '../../../backend/reminders/reminder-content.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'

const OLD_DETAILS = { account_holder: 'Acme', account_number: 'NL91ABNA0417164300' }
const NEW_DETAILS = { account_holder: 'Acme', account_number: 'DE89370400440532013000' }

/** Starts on a Tuesday morning, with a firm reminder that waits for approval. */
async function startWithApproval(t: Test) {
  const engine = await startEngine(t)
  await setPaymentDetails(engine, OLD_DETAILS)
  await engine.createInvoice('2026-11-01')
  for (const day of ['04', '11', '24']) await engine.planAndSendAt(`2026-11-${day}T08:00:00.000Z`)
  return engine
}

function setPaymentDetails({ testAccount }: Engine, details: typeof OLD_DETAILS): Promise<void> {
  const actionContext = { actor: OPERATOR, now: testAccount.backend.now }
  return testAccount.backend.database.transaction((tx) =>
    changePaymentDetails(tx, testAccount.accountId, 'EUR', details, actionContext),
  )
}

async function pendingApproval({ testAccount }: Engine): Promise<PendingApproval | undefined> {
  const [first] = await listPendingApprovals(
    testAccount.backend.database.read,
    testAccount.accountId,
  )
  return first
}

t.test('a reminder that awaits approval is updated with new payment details', async (t) => {
  const engine = await startWithApproval(t)
  const before = await pendingApproval(engine)
  matches(t, before?.message.body, containing('NL91 ABNA'))
  await setPaymentDetails(engine, NEW_DETAILS)
  await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
  const after = await pendingApproval(engine)
  t.equal(after?.message.id, before?.message.id)
  matches(t, after?.message.body, containing('DE89 3704'))
  matches(t, after?.html, containing('DE89 3704'))
  t.not(
    after?.contentDigest,
    before?.contentDigest,
    'an approval of the old text does not apply to the new one',
  )
  t.ok((after?.message.revision ?? 0) > (before?.message.revision ?? 0))
  t.equal(after?.expiresAt, before?.expiresAt)
  await engine.decide({ approve: true, seenDigest: after?.contentDigest })
  await engine.planAndSendAt('2026-11-24T08:02:00.000Z')
  const sent = engine.smtp.mails.at(-1)
  matches(t, sent?.mail.text, containing('DE89 3704'))
})

t.test(
  'an approval lapses if the payment details change before the reminder is sent',
  async (t) => {
    const engine = await startWithApproval(t)
    await engine.decide({ approve: true })
    await setPaymentDetails(engine, NEW_DETAILS)
    await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
    t.strictSame((await engine.messageLog()).slice(2), ['firm:cancelled', 'firm:awaiting_approval'])
    t.equal((await engine.messages()).at(-2)?.approval_status, 'lapsed')
    matches(t, (await pendingApproval(engine))?.message.body, containing('DE89 3704'))
    t.equal(engine.smtp.mails.length, 2, 'only the two earlier stages were sent')
  },
)

t.test('a reminder that waits for a retry is replaced if the payment details change', async (t) => {
  const engine = await startEngine(t)
  await setPaymentDetails(engine, OLD_DETAILS)
  await engine.createInvoice('2026-11-20')
  engine.smtp.failAt('rcpt', { code: 450, text: '4.2.1 later' }, 1)
  await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:queued'])
  await setPaymentDetails(engine, NEW_DETAILS)
  await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:cancelled', 'friendly:sent'])
  matches(t, (await engine.messages()).at(-1)?.body, containing('DE89 3704'))
})

t.test('a person approves the edited wording, and exactly the approved text is sent', async (t) => {
  const engine = await startWithApproval(t)
  await setWording(engine, 'First wording')
  await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
  const approved = await pendingApproval(engine)
  matches(t, approved?.message.body, containing('First wording'))
  await engine.decide({ approve: true, seenDigest: approved?.contentDigest })
  await setWording(engine, 'Second wording')
  await engine.planAndSendAt('2026-11-24T08:02:00.000Z')
  t.equal((await engine.messageLog()).at(-1), 'firm:sent')
  const sent = engine.smtp.mails.at(-1)?.mail
  matches(t, sent?.text, containing('First wording'))
  matches(t, sent?.html, containing('First wording'))
  t.notMatch(`${sent?.text} ${sent?.html}`, /Second wording/)
})

t.test('an approval of the old wording does not apply to the new one', async (t) => {
  const engine = await startWithApproval(t)
  const oldApproval = await pendingApproval(engine)
  await setWording(engine, 'Another wording')
  await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
  await rejectsWith(t, engine.decide({ approve: true, seenDigest: oldApproval?.contentDigest }), {
    code: 'approval_outdated',
  })
  await engine.planAndSendAt('2026-11-24T09:00:00.000Z')
  t.equal((await engine.messageLog()).at(-1), 'firm:awaiting_approval')
})

// Regression: a changed language applied only to later reminders, and not to the one that awaited approval.
t.test(
  'a reminder that awaits approval is updated with the language of its customer',
  async (t) => {
    const engine = await startWithApproval(t)
    const other = await engine.createDebtor({ name: 'Other' })
    const before = await pendingApproval(engine)
    await editDebtor(engine, other.id, { language: 'de' })
    await editDebtor(engine, before?.message.debtor_id ?? '', { name: 'Jansen Bouw' })
    await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
    matches(t, (await pendingApproval(engine))?.message.body, containing('Jansen Bouw'))
    await editDebtor(engine, before?.message.debtor_id ?? '', { language: 'de' })
    await engine.planAndSendAt('2026-11-24T08:02:00.000Z')
    const after = await pendingApproval(engine)
    t.equal(after?.message.id, before?.message.id)
    matches(t, after?.message.body, containing('Guten Tag'))
    await rejectsWith(t, engine.decide({ approve: true, seenDigest: before?.contentDigest }), {
      code: 'approval_outdated',
    })
  },
)

// Regression: a changed name applied only to later reminders, and not to the one that awaited approval.
t.test('a reminder that awaits approval is updated with the name of the account', async (t) => {
  const engine = await startWithApproval(t)
  const { backend, accountId } = engine.testAccount
  const before = await pendingApproval(engine)
  const actionContext = { actor: OPERATOR, now: backend.now }
  await backend.database.transaction((tx) =>
    changeProfile(tx, accountId, { name: 'Renamed Holding' }, actionContext),
  )
  await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
  const after = await pendingApproval(engine)
  t.equal(after?.message.id, before?.message.id)
  matches(t, after?.message.body, containing('Renamed Holding'))
  t.not(after?.contentDigest, before?.contentDigest)
})

t.test('a wording of another stage, language or account has no effect', async (t) => {
  const engine = await startWithApproval(t)
  const before = await pendingApproval(engine)
  await setWording(engine, 'Final words', { stage: 'final', language: 'en' })
  await setWording(engine, 'Letzte Worte', { stage: 'firm', language: 'de' })
  const other = await engine.testAccount.backend.createAccount()
  await setWording(engine, 'Their words', undefined, other.id)
  await engine.planAndSendAt('2026-11-24T08:01:00.000Z')
  t.equal((await pendingApproval(engine))?.message.body, before?.message.body)
})

function editDebtor(
  { testAccount }: Engine,
  debtorId: string,
  details: DebtorDetails,
): Promise<unknown> {
  const actionContext = { actor: OPERATOR, now: testAccount.backend.now }
  return testAccount.backend.database.transaction((tx) =>
    changeDebtorDetails(tx, testAccount.accountId, debtorId, details, actionContext),
  )
}

function setWording(
  { testAccount }: Engine,
  opening: string,
  key: WordingKey = { stage: 'firm', language: 'en' },
  accountId = testAccount.accountId,
): Promise<void> {
  const actionContext = { actor: OPERATOR, now: testAccount.backend.now }
  const wording = { ...defaultWording(key.stage, key.language), opening }
  return testAccount.backend.database.transaction((tx) =>
    changeWording(tx, accountId, key, wording, actionContext),
  )
}
