// The page of the account: Admins change settings, Members only read them, and changes apply immediately.
import t from 'tap'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngineWithUsers } from '../../fixtures/reminders/engine.ts'
import { logIn, MEMBER } from '../../fixtures/service/settings.ts'

const PATH = '/settings/account'

t.test('an Admin changes the account, and new invoices have the new defaults', async (t) => {
  const { engine, ada } = await startEngineWithUsers(t)
  const before = (await ada.get(PATH)).json
  const change = { name: '  Globex Ltd ', default_currency: 'SEK', payment_terms_days: 14 }
  const changed = await ada.send('POST', PATH, change)
  matches(t, changed, {
    status: 200,
    json: { ...before, name: 'Globex Ltd', default_currency: 'SEK', payment_terms_days: 14 },
  })
  matches(t, (await ada.get(PATH)).json, changed.json)
  const { id } = await engine.createDebtor()
  const body = { debtor_id: id, currency: 'SEK', amount: 100, issue_date: '2026-11-16' }
  matches(t, await engine.testAccount.create('/api/v1/invoices', body), { due_date: '2026-11-30' })
  matches(t, (await ada.page(`/settings/invoices/new?debtor_id=${id}`)).text, containing('"SEK"'))
  matches(t, await engine.testAccount.read('/api/v1/me'), {
    account: { name: 'Globex Ltd', default_currency: 'SEK' },
  })
  const log = await ada.page('/settings/audit-log')
  matches(t, log.text, containing('Changed the account<'))
  t.equal((await ada.send('POST', PATH, {})).status, 200, 'omitted fields do not change')
  matches(t, (await ada.get(PATH)).json, changed.json)
})

t.test('the time zone determines when an invoice becomes overdue', async (t) => {
  const { engine, ada } = await startEngineWithUsers(t)
  const { id } = await engine.createInvoice('2026-11-16')
  const isOverdue = async () =>
    (await engine.testAccount.read(`/api/v1/invoices/${id}`))['is_overdue']
  await engine.planAndSendAt('2026-11-16T23:30:00.000Z')
  await ada.send('POST', PATH, { timezone: 'America/New_York' })
  t.equal(await isOverdue(), false)
  await ada.send('POST', PATH, { timezone: 'Europe/Amsterdam' })
  t.equal(await isOverdue(), true)
})

t.test('an error is shown beside its field, and nothing is saved', async (t) => {
  const { ada } = await startEngineWithUsers(t)
  const before = (await ada.get(PATH)).json
  for (const [name, value] of [
    ['name', ' '],
    ['name', 'x'.repeat(201)],
    ['timezone', 'CET+1'],
    ['default_currency', 'XAU'],
    ['payment_terms_days', 366],
  ] as const) {
    const { status, json } = await ada.send('POST', PATH, { [name]: value })
    t.equal(status, 422)
    t.strictSame(
      (json['errors'] as { pointer: string }[]).map(({ pointer }) => pointer),
      [`/${name}`],
    )
  }
  const form = {
    name: '<b>',
    timezone: 'Mars',
    default_currency: 'EUR',
    payment_terms_days: 'soon',
  }
  const { status, text } = await ada.submit(PATH, form)
  t.equal(status, 422)
  matches(t, text, containing('value="&lt;b&gt;"'))
  matches(t, text, containing('id="timezone-fault">Time zone must be an IANA time zone'))
  matches(t, text, containing('id="payment_terms_days-fault">Payment terms in days must be'))
  matches(t, (await ada.get(PATH)).json, before)
})

// Regression: the error did not say why, and an Admin could not know how to use the account again.
t.test(
  'if the time zone is unknown to Node.js, errors say so, and it can be changed',
  async (t) => {
    const { engine, backend, ada } = await startEngineWithUsers(t)
    await engine.createInvoice('2026-11-20')
    await backend.database.transaction((tx) =>
      tx.updateTable('accounts').set({ timezone: 'Mars/Olympus' }).execute(),
    )
    const explanation =
      /The time zone Mars\/Olympus of the account is unknown.*choose another.*\/settings\/account/s
    for (const path of ['/settings', '/settings/invoices', '/settings/reminders']) {
      matches(t, await ada.page(path), { status: 500, text: explanation }, path)
    }
    matches(t, await ada.get('/settings/invoices'), {
      status: 500,
      json: { code: 'internal_error', detail: explanation },
    })
    t.equal((await ada.page(PATH)).status, 200)
    t.equal((await ada.send('POST', PATH, { timezone: 'Europe/Amsterdam' })).status, 200)
    t.equal((await ada.page('/settings')).status, 200)
  },
)

t.test('Members can only read the account, and its form needs a CSRF token', async (t) => {
  const { backend, ada } = await startEngineWithUsers(t)
  const mia = await logIn(backend, MEMBER)
  matches(t, await mia.send('POST', PATH, { name: 'Mine' }), {
    status: 403,
    json: { code: 'admin_required' },
  })
  const { text } = await mia.page(PATH)
  matches(t, text, containing('An Admin can change these settings.'))
  t.notMatch(text, /<input id="name"/)
  t.equal((await ada.submit(PATH, { name: 'Globex', csrf_token: 'x' })).status, 403)
})
