// What reminders say can change until a person has approved it; what was approved is what is sent.
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { Details } from '../../../backend/debtors/details.ts'
import type { WordingKey } from '../../../backend/mail/wording/account-wordings.ts'
import { defaultWording } from '../../../backend/mail/wording/wording.ts'
import { type Approval, listApprovals } from '../../../backend/reminders/approvals.ts'
import {
  changeDetails,
  changePaymentDetails,
  changeProfile,
  changeWording,
} from '../../../backend/reminders/letters.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'

const OLD = { account_holder: 'Acme', account_number: 'NL91ABNA0417164300' }
const NEW = { account_holder: 'Acme', account_number: 'DE89370400440532013000' }

/** With a firm reminder that waits for approval, on a Tuesday morning. */
async function startWaiting(t: Test) {
  const engine = await startEngine(t)
  await pay(engine, OLD)
  await engine.invoice('2026-11-01')
  for (const day of ['04', '11', '24']) await engine.at(`2026-11-${day}T08:00:00.000Z`)
  return engine
}

function pay({ books }: Engine, details: typeof OLD): Promise<void> {
  const act = { actor: OPERATOR, now: books.backend.now }
  return books.backend.database.transaction((tx) =>
    changePaymentDetails(tx, books.accountId, 'EUR', details, act),
  )
}

async function waiting({ books }: Engine): Promise<Approval | undefined> {
  const [first] = await listApprovals(books.backend.database.read, books.accountId)
  return first
}

t.test('a reminder that awaits approval is written again with the new way to pay', async (t) => {
  const engine = await startWaiting(t)
  const before = await waiting(engine)
  matches(t, before?.message.body, containing('NL91 ABNA'))
  await pay(engine, NEW)
  await engine.at('2026-11-24T08:01:00.000Z')
  const after = await waiting(engine)
  t.equal(after?.message.id, before?.message.id)
  matches(t, after?.message.body, containing('DE89 3704'))
  matches(t, after?.html, containing('DE89 3704'))
  t.not(after?.seen, before?.seen, 'who read the old text does not approve the new one')
  t.ok((after?.message.revision ?? 0) > (before?.message.revision ?? 0))
  t.equal(after?.expiresAt, before?.expiresAt)
  await engine.decide({ approve: true, seen: after?.seen })
  await engine.at('2026-11-24T08:02:00.000Z')
  const sent = engine.smtp.mails.at(-1)
  matches(t, sent?.mail.text, containing('DE89 3704'))
})

t.test('an approval lapses when the way to pay changes before the reminder is sent', async (t) => {
  const engine = await startWaiting(t)
  await engine.decide({ approve: true })
  await pay(engine, NEW)
  await engine.at('2026-11-24T08:01:00.000Z')
  t.strictSame((await engine.log()).slice(2), ['firm:cancelled', 'firm:awaiting_approval'])
  t.equal((await engine.messages()).at(-2)?.approval_status, 'lapsed')
  matches(t, (await waiting(engine))?.message.body, containing('DE89 3704'))
  t.equal(engine.smtp.mails.length, 2, 'the friendly one and the reminder')
})

t.test('a reminder that the mail server rejected temporarily is also written again', async (t) => {
  const engine = await startEngine(t)
  await pay(engine, OLD)
  await engine.invoice('2026-11-20')
  engine.smtp.failAt('rcpt', { code: 450, text: '4.2.1 later' }, 1)
  await engine.at('2026-11-24T08:00:00.000Z')
  t.strictSame(await engine.log(), ['friendly:queued'])
  await pay(engine, NEW)
  await engine.at('2026-11-24T10:00:00.000Z')
  t.strictSame(await engine.log(), ['friendly:cancelled', 'friendly:sent'])
  matches(t, (await engine.messages()).at(-1)?.body, containing('DE89 3704'))
})

t.test(
  'a wording that was edited is what a person approves, and what was approved is sent',
  async (t) => {
    const engine = await startWaiting(t)
    await word(engine, 'First wording')
    await engine.at('2026-11-24T08:01:00.000Z')
    const approved = await waiting(engine)
    matches(t, approved?.message.body, containing('First wording'))
    await engine.decide({ approve: true, seen: approved?.seen })
    await word(engine, 'Second wording')
    await engine.at('2026-11-24T08:02:00.000Z')
    t.equal((await engine.log()).at(-1), 'firm:sent')
    const sent = engine.smtp.mails.at(-1)?.mail
    matches(t, sent?.text, containing('First wording'))
    matches(t, sent?.html, containing('First wording'))
    t.notMatch(`${sent?.text} ${sent?.html}`, /Second wording/)
  },
)

t.test('who has read the old wording does not approve the new one', async (t) => {
  const engine = await startWaiting(t)
  const read = await waiting(engine)
  await word(engine, 'Another wording')
  await engine.at('2026-11-24T08:01:00.000Z')
  await rejectsWith(t, engine.decide({ approve: true, seen: read?.seen }), {
    code: 'approval_outdated',
  })
  await engine.at('2026-11-24T09:00:00.000Z')
  t.equal((await engine.log()).at(-1), 'firm:awaiting_approval')
})

// An edited language waited for the next reminder: the waiting one stayed in the old one.
t.test('a reminder that awaits approval follows the language of its customer', async (t) => {
  const engine = await startWaiting(t)
  const other = await engine.debtor({ name: 'Other' })
  const before = await waiting(engine)
  await edit(engine, other.id, { language: 'de' })
  await edit(engine, before?.message.debtor_id ?? '', { name: 'Jansen Bouw' })
  await engine.at('2026-11-24T08:01:00.000Z')
  matches(t, (await waiting(engine))?.message.body, containing('Jansen Bouw'))
  await edit(engine, before?.message.debtor_id ?? '', { language: 'de' })
  await engine.at('2026-11-24T08:02:00.000Z')
  const after = await waiting(engine)
  t.equal(after?.message.id, before?.message.id)
  matches(t, after?.message.body, containing('Guten Tag'))
  await rejectsWith(t, engine.decide({ approve: true, seen: before?.seen }), {
    code: 'approval_outdated',
  })
})

// A renamed account waited for the next reminder: the waiting one had the old name of the creditor.
t.test('a reminder that awaits approval follows the name of the account', async (t) => {
  const engine = await startWaiting(t)
  const { backend, accountId } = engine.books
  const before = await waiting(engine)
  const act = { actor: OPERATOR, now: backend.now }
  await backend.database.transaction((tx) =>
    changeProfile(tx, accountId, { name: 'Renamed Holding' }, act),
  )
  await engine.at('2026-11-24T08:01:00.000Z')
  const after = await waiting(engine)
  t.equal(after?.message.id, before?.message.id)
  matches(t, after?.message.body, containing('Renamed Holding'))
  t.not(after?.seen, before?.seen)
})

t.test('a wording of another stage, language or account changes nothing', async (t) => {
  const engine = await startWaiting(t)
  const before = await waiting(engine)
  await word(engine, 'Final words', { stage: 'final', language: 'en' })
  await word(engine, 'Letzte Worte', { stage: 'firm', language: 'de' })
  const other = await engine.books.backend.createAccount()
  await word(engine, 'Their words', undefined, other.id)
  await engine.at('2026-11-24T08:01:00.000Z')
  t.equal((await waiting(engine))?.message.body, before?.message.body)
})

function edit({ books }: Engine, debtorId: string, details: Details): Promise<unknown> {
  const act = { actor: OPERATOR, now: books.backend.now }
  return books.backend.database.transaction((tx) =>
    changeDetails(tx, books.accountId, debtorId, details, act),
  )
}

function word(
  { books }: Engine,
  opening: string,
  key: WordingKey = { stage: 'firm', language: 'en' },
  accountId = books.accountId,
): Promise<void> {
  const act = { actor: OPERATOR, now: books.backend.now }
  const wording = { ...defaultWording(key.stage, key.language), opening }
  return books.backend.database.transaction((tx) => changeWording(tx, accountId, key, wording, act))
}
