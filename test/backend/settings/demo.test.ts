// The demo account as it looks in Settings.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { createDemoAccount, DEMO_LOGINS } from '../../../backend/demo/demo.ts'
import { createPasswords } from '../../../backend/users/passwords.ts'
import { matches } from '../../fixtures/matches.ts'
import { logIn, PASSWORD, startSettings } from '../../fixtures/service/settings.ts'

const { backend } = await startSettings(t)
backend.now = new Date('2026-11-23T09:00:00.000Z')
const passwordHash = await createPasswords().hash(PASSWORD)
await backend.database.transaction((tx) =>
  createDemoAccount(tx, passwordHash, { actor: OPERATOR, now: backend.now }),
)
const admin = await logIn(backend, DEMO_LOGINS[0].email)

t.test('an invoice whose Firm waits says so', async (t) => {
  const { text } = await admin.page('/settings/invoices?number=INV-000004')
  matches(t, text, /Firm, awaits approval/)
  t.notMatch(text, /Friendly/)
})

t.test('a customer without an address is held in the calendar and in the list', async (t) => {
  const { json } = await admin.get('/settings/reminders')
  const reasons = (json['data'] as { debtor_name: string; refusal: { reason: string } }[])
    .filter(({ debtor_name }) => debtor_name.startsWith('Café'))
    .map(({ refusal }) => refusal.reason)
  t.strictSame([...new Set(reasons)], ['no_contact'])
  const { text } = await admin.page('/settings/reminders')
  matches(t, text, /<h2 id="held">/)
  const list = await admin.page('/settings/invoices?number=INV-000009')
  matches(t, list.text, /Held: there is no address/)
})

t.test('nothing on the pages contradicts the messages of the sample log', async (t) => {
  const { text } = await admin.page('/settings/reminders')
  matches(t, text, /No mail leaves this\s+account; what its log shows as delivered is made up/)
  matches(
    t,
    (await admin.page('/settings/messages')).text,
    /Sample messages: none of them was mailed/,
  )
})
