// The page of a webhook endpoint in an account whose time zone is not UTC.
import t from 'tap'
import { containing, matches } from '../../fixtures/matches.ts'
import { createUserIn, logIn, startSettings } from '../../fixtures/service/settings.ts'

const { backend } = await startSettings(t)
const account = await backend.createAccount({ name: 'Delhi Ltd', timezone: 'Asia/Kolkata' })
await createUserIn(backend, account.id, 'asha@delhi.example', 'admin')
const asha = await logIn(backend, 'asha@delhi.example')

t.test(
  'the page shows recent deliveries, and reads and shows times in the account’s time zone',
  async (t) => {
    const input = { url: 'https://hooks.example.com/in', description: '', events: ['*'] }
    const created = await asha.send('POST', '/settings/webhook-endpoints', input)
    const path = `/settings/webhook-endpoints/${created.json['id']}`
    const unused = await asha.page(path)
    matches(t, unused.text, /No event was sent to this endpoint in the last 30 days/)
    matches(t, unused.text, /<dt>Last attempt<\/dt><dd>None in 30 days</)
    const key = await backend.issueKey(account.id)
    await backend.call(key, 'POST', '/api/v1/debtors', {
      body: { name: 'Globex' },
      headers: { 'idempotency-key': 'globex' },
    })
    const { text } = await asha.page(path)
    matches(t, text, /<h2 id="recent">Recent deliveries<\/h2>/)
    matches(t, text, /debtor\.created/)
    matches(t, text, /<label for="since">Since<\/label>/)
    // The default is a day ago at 10:15 in UTC, which is 15:45 in Delhi.
    matches(t, text, /name="since" type="datetime-local" value="2026-11-20T15:45"/)
    t.notMatch(text, /UTC/)
    matches(t, text, containing(`/settings/audit-log?subject_id=${created.json['id']}`))
    // Regression: an hour above 23 was read as an hour of the next day.
    const invalid = await asha.submit(`${path}/redeliver-failed`, { since: '2026-11-20T25:45' })
    t.equal(invalid.status, 422)
    const redelivery = await asha.submit(`${path}/redeliver-failed`, { since: '2026-11-20T15:45' })
    t.equal(redelivery.status, 303)
    const audit = await asha.get('/settings/audit-log')
    matches(t, JSON.stringify(audit.json), /2026-11-20T10:15:00\.000Z/)
  },
)
