// The page "API & webhooks", and the confirmations before a key is issued, revoked or restricted.
import t from 'tap'
import { matches } from '../../fixtures/matches.ts'
import { ADMIN, logIn, startSettings } from '../../fixtures/service/settings.ts'

const { backend, account } = await startSettings(t)
const ada = await logIn(backend, ADMIN)
const PATH = '/settings/api-keys'

t.test('a second key with the same name is issued only after a confirmation', async (t) => {
  const issue = (more: Record<string, string> = {}) =>
    ada.submit(PATH, { name: 'Warehouse', scopes: 'debtors:read', ...more })
  t.equal((await issue()).status, 201)
  const again = await issue({ name: ' Warehouse ' })
  t.equal(again.status, 422)
  matches(t, again.text, /Another active key is named Warehouse \(rcv_/)
  matches(t, again.text, /name="same_name"/)
  const confirmed = await issue({ same_name: 'yes' })
  t.equal(confirmed.status, 201)
  const json = await ada.send('POST', PATH, { name: 'Warehouse', scopes: ['debtors:read'] })
  t.equal(json.status, 201, 'JSON clients need no confirmation')
})

t.test('the name of a revoked key can be used again', async (t) => {
  const { row } = await backend.issueKey(account.id, { name: 'Shop' })
  await ada.send('POST', `${PATH}/${row.id}/revoke`)
  t.equal((await ada.submit(PATH, { name: 'Shop', scopes: 'debtors:read' })).status, 201)
})

t.test('the page that revokes a key shows a call that was made just now', async (t) => {
  // Regression: the page said "never used" for up to four seconds after a call.
  const key = await backend.issueKey(account.id, { name: 'Till' })
  const before = await ada.page(`${PATH}/${key.row.id}/revoke`)
  matches(t, before.text, /No use of this key is recorded/)
  t.equal((await backend.call(key, 'GET', '/api/v1/me')).status, 200)
  const { text } = await ada.page(`${PATH}/${key.row.id}/revoke`)
  matches(t, text, /This key was used just now/)
  const list = await ada.page(PATH)
  matches(
    t,
    list.text,
    /just now<\/time> <span class="stamp">21 Nov 2026, /,
    'the exact time is shown too',
  )
})

t.test('the page of account-wide permissions counts only active keys', async (t) => {
  // Regression: expired keys were counted, although no call can use them.
  const { backend } = await startSettings(t)
  const admin = await logIn(backend, ADMIN)
  const issue = (more: object) =>
    admin.send('POST', PATH, { name: 'Shop', scopes: ['debtors:read'], ...more })
  t.equal((await issue({})).status, 201)
  t.equal((await issue({ expires_at: '2026-11-22T10:15:00Z' })).status, 201)
  const page = async () =>
    (await (await logIn(backend, ADMIN)).page('/settings/scope-allowance')).text
  matches(t, await page(), /value="debtors:read"[\s\S]*?<span class="hint">2 keys</)
  backend.now = new Date('2026-11-23T10:15:00.000Z')
  matches(t, await page(), /value="debtors:read"[\s\S]*?<span class="hint">1 key</)
})

t.test('the page shows the webhook endpoints', async (t) => {
  matches(t, (await ada.page(PATH)).text, /There is no endpoint yet/)
  const input = { url: 'https://hooks.example.com/receivables', description: 'ERP', events: ['*'] }
  t.equal((await ada.send('POST', '/settings/webhook-endpoints', input)).status, 201)
  const { text } = await ada.page(PATH)
  matches(t, text, /https:\/\/hooks\.example\.com\/receivables/)
  matches(t, text, /Every event/)
})

t.test(
  'before the account-wide permissions are restricted, a page lists the affected keys',
  async (t) => {
    const live = await backend.issueKey(account.id, {
      name: 'Forklift',
      scopes: ['payments:write'],
    })
    const revoked = await backend.issueKey(account.id, {
      name: 'Scrapped',
      scopes: ['payments:write'],
    })
    await ada.send('POST', `${PATH}/${revoked.row.id}/revoke`)
    t.equal((await backend.call(live, 'GET', '/api/v1/me')).status, 200)
    const submit = (more: Record<string, string>) =>
      ada.submit('/settings/scope-allowance', { scopes: 'debtors:read', ...more })
    const confirmation = await submit({})
    t.equal(confirmation.status, 200)
    matches(t, confirmation.text, /Remove permissions from \d+ active keys?\?/)
    matches(t, confirmation.text, /Forklift<\/strong>[^<]*\(<code[^>]*>rcv_/)
    matches(t, confirmation.text, /record payments\. Last used: <time[^>]*>just now/)
    t.notMatch(confirmation.text, /Scrapped/)
    const unchanged = await ada.get('/settings/scope-allowance')
    t.equal((unchanged.json['scopes'] as string[]).length, 7, 'nothing is changed yet')
    t.equal((await submit({ confirmed: 'yes' })).status, 303)
    const changed = await ada.get('/settings/scope-allowance')
    t.strictSame(changed.json['scopes'], ['debtors:read'])
    const repeated = await ada.submit('/settings/scope-allowance', { scopes: 'debtors:read' })
    t.equal(repeated.status, 303, 'no confirmation is needed if no key loses a scope')
  },
)

t.test('pages name the time zone of their times', async (t) => {
  for (const path of ['/settings', PATH, '/settings/webhook-deliveries']) {
    matches(t, (await ada.page(path)).text, /Times are in the account’s time zone, <span[^>]*>\w+/)
  }
})

t.test('the form of an endpoint says what an event means', async (t) => {
  const { text } = await ada.page('/settings/webhook-endpoints/new')
  matches(
    t,
    text,
    /message\.awaiting_approval<\/span><span class="detail">A Firm or Final reminder/,
  )
})

// Regression: with 15,000 keys near their limits, Home had 4 MB.
t.test('Home lists the ten busiest keys', async (t) => {
  const { backend, account } = await startSettings(t)
  const ends_at = new Date(backend.now.getTime() + 1_800_000).toISOString()
  for (let used = 89; used <= 100; used++) {
    const { row } = await backend.issueKey(account.id, { name: `Shop ${used}`, rateLimit: 100 })
    await backend.database.transaction((tx) =>
      tx
        .insertInto('key_windows')
        .values({ key_id: row.id, used, rate_limit: 100, ends_at })
        .execute(),
    )
  }
  const admin = await logIn(backend, ADMIN)
  const { json } = await admin.get('/settings')
  const busiest = Array.from({ length: 10 }, (_, n) => `Shop ${100 - n}`)
  matches(t, json, { busy_keys: busiest.map((name) => ({ name })) })
  const { text } = await admin.page('/settings')
  t.equal(text.match(/of 100 calls/g)?.length, 10)
  matches(t, text, /More API keys are at or near their limits\./)
})

// Regression: on PostgreSQL, Home got 500 if an active key had a limit of more than 26 million calls.
t.test('Home shows the use of a key that has the largest possible limit', async (t) => {
  const { backend, account } = await startSettings(t)
  const ends_at = new Date(backend.now.getTime() + 1_800_000).toISOString()
  const rateLimit = 1_000_000_000
  const { row } = await backend.issueKey(account.id, { rateLimit })
  await backend.database.transaction((tx) =>
    tx
      .insertInto('key_windows')
      .values({ key_id: row.id, used: 800_000_000, rate_limit: rateLimit, ends_at })
      .execute(),
  )
  const admin = await logIn(backend, ADMIN)
  const { status, json } = await admin.get('/settings')
  t.equal(status, 200)
  matches(t, json, { busy_keys: [{ id: row.id, used: 800_000_000, limit: rateLimit }] })
})
