// The demo account in Settings.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { createDemoAccount, DEMO_LOGINS } from '../../../backend/demo/demo.ts'
import { runSendCheck } from '../../../backend/reminders/sending/send-check.ts'
import { createPasswords } from '../../../backend/users/passwords.ts'
import { matches } from '../../fixtures/matches.ts'
import { CHEAP_HASHES, logIn, PASSWORD, startSettings } from '../../fixtures/service/settings.ts'

const { backend } = await startSettings(t)
backend.now = new Date('2026-11-23T09:00:00.000Z')
const passwordHash = await createPasswords(CHEAP_HASHES).hash(PASSWORD)
await backend.database.transaction((tx) =>
  createDemoAccount(tx, passwordHash, { actor: OPERATOR, now: backend.now }),
)
const admin = await logIn(backend, DEMO_LOGINS[0].email)

t.test('an invoice shows that its Firm reminder awaits approval', async (t) => {
  const { text } = await admin.page('/settings/invoices?number=INV-000004')
  matches(t, text, /Firm, awaits approval/)
  t.notMatch(text, /Friendly/)
})

t.test('pages show that reminders to a customer without an address are blocked', async (t) => {
  const { json } = await admin.get('/settings/reminders')
  const reasons = (json['data'] as { debtor_name: string; refusal: { reason: string } }[])
    .filter(({ debtor_name }) => debtor_name.startsWith('Café'))
    .map(({ refusal }) => refusal.reason)
  t.strictSame([...new Set(reasons)], ['no_contact'])
  const { text } = await admin.page('/settings/reminders')
  matches(t, text, /<h2 id="blocked">/)
  const list = await admin.page('/settings/invoices?number=INV-000009')
  matches(t, list.text, /Blocked: the customer has no e-mail address/)
})

t.test('pages say that the sample messages were never mailed', async (t) => {
  const { text } = await admin.page('/settings/reminders')
  matches(t, text, /No mail is sent from\s+this account; deliveries in its log are made up/)
  matches(
    t,
    (await admin.page('/settings/messages')).text,
    /Sample messages: none of them was mailed/,
  )
})

t.test('the link to older messages keeps the limit', async (t) => {
  const { text } = await admin.page('/settings/messages?limit=1&view=sent')
  matches(t, text, /href="\/settings\/messages\?view=sent&amp;limit=1&amp;cursor=\w+" rel="next"/)
})

t.test('a customer whose mail bounced is shown as bounced', async (t) => {
  const { json } = await admin.get('/settings/customers?q=umbrella')
  const [umbrella] = json['data'] as { id: string; contactability: { email: string } }[]
  t.equal(umbrella?.contactability.email, 'bounced')
  const { text } = await admin.page(`/settings/customers/${umbrella?.id}`)
  matches(t, text, /bounced/i)
})

t.test('messages have the name of their stage', async (t) => {
  // Regression: the stage "Reminder" was called "Second reminder" in the log, although it can be the third mail.
  const nameOf = async (stage: string) => {
    const log = await admin.page(`/settings/messages?stage=${stage}`)
    const [, name] = /data-label="Message"><a href="[^"]+">([^<]+)</.exec(log.text) ?? []
    const [, selected] = /<option value="\w+" selected>([^<]+)</.exec(log.text) ?? []
    return [selected, name]
  }
  t.strictSame(await nameOf('friendly'), ['Friendly', 'Friendly reminder'])
  t.strictSame(await nameOf('reminder'), ['Reminder', 'Reminder'])
})

// Regression: the only sample approval was suppressed, because no reminder about sample data is sent.
t.test('the sample approval is updated when the wording changes', async (t) => {
  const { json } = await admin.get('/settings/approvals')
  const [approval] = json['data'] as { id: string }[]
  const id = approval?.id ?? ''
  const page = await admin.page(`/settings/approvals/${id}`)
  matches(t, page.text, /href="\/settings\/wording\/firm-en">Change the wording/)
  const { json: wording } = await admin.get('/settings/wording/firm-en')
  const { subject, greeting, opening_several, closing, sign_off } = wording
  const opening = 'We have written twice.'
  const body = { subject, greeting, opening, opening_several, closing, sign_off }
  matches(t, await admin.send('PUT', '/settings/wording/firm-en', body), { status: 200 })
  const links = { linkFor: () => 'https://receivables.test/stop', open: () => undefined }
  const deps = { unsubscribeLinks: links, mailer: { messageIdOf: (message: string) => message } }
  await backend.database.transaction((tx) => runSendCheck(tx, deps, id, backend.now))
  const changed = await admin.get(`/settings/approvals/${id}`)
  matches(t, changed.json, { status: 'awaiting_approval', body: /We have written twice\./ })
})
