// Sensitive actions need a password that was entered recently; pages that confirm an action state its consequences.
import t from 'tap'
import { matches } from '../../fixtures/matches.ts'
import {
  ADMIN,
  cookieOf,
  JSON_ONLY,
  logIn,
  MEMBER,
  PASSWORD,
  startSettings,
} from '../../fixtures/service/settings.ts'

const MINUTE_MS = 60_000
const NEW_KEY = { name: 'ERP', scopes: ['debtors:read'] }

/** Returns the fields that the form with this action sends, by name. */
function sentBy(page: string, action: string): Record<string, string> {
  const [, form = ''] = page.split(`<form method="post" action="${action}"`)
  const [content = ''] = form.split('</form>')
  const attributeOf = (input: string, name: string) =>
    (new RegExp(` ${name}="([^"]*)"`).exec(input)?.[1] ?? '')
      .replaceAll('&quot;', '"')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&#39;', "'")
      .replaceAll('&amp;', '&')
  const inputs = content.match(/<input [^>]*>/g) ?? []
  const named = inputs.filter((input) => / name="/.test(input))
  return Object.fromEntries(
    named.map((input) => [attributeOf(input, 'name'), attributeOf(input, 'value')]),
  )
}

t.test(
  'issuing keys and making people Admins needs a password that was entered within 15 minutes',
  async (t) => {
    const { backend, account, member } = await startSettings(t)
    const key = await backend.issueKey(account.id)
    const ada = await logIn(backend, ADMIN)
    const actions: [path: string, body: object][] = [
      ['/settings/api-keys', NEW_KEY],
      [`/settings/api-keys/${key.row.id}/rotate`, { grace: '24h' }],
      ['/settings/people', { email: 'new@acme.example', role: 'admin' }],
      [`/settings/people/${member.id}/role`, { role: 'admin' }],
    ]
    const start = backend.now.getTime()
    backend.now = new Date(start + 15 * MINUTE_MS)
    for (const [path, body] of actions) {
      const { status, json } = await ada.send('POST', path, body)
      t.strictSame([status, json['code']], [403, 'confirmation_required'], path)
    }
    for (const path of ['/settings/api-keys/new', `/settings/people/${member.id}/role`]) {
      const { status, headers } = await ada.page(path)
      const next = `/settings/confirm?next=${encodeURIComponent(path)}`
      t.strictSame([status, headers.get('location')], [303, next])
    }
    t.equal((await ada.send('POST', `/settings/api-keys/${key.row.id}/revoke`)).status, 200)
    const wrong = await ada.send('POST', '/settings/confirm', { password: 'wrong' })
    t.equal(wrong.status, 422)
    const confirmed = await ada.send('POST', '/settings/confirm', { password: PASSWORD })
    t.equal(confirmed.status, 204)
    const cookie = cookieOf(confirmed)
    t.not(cookie, ada.cookie, 'the session has a new token')
    t.equal((await ada.get('/settings/session')).status, 401)
    const session = await backend.request('GET', '/settings/session', {
      headers: { ...JSON_ONLY, cookie },
    })
    const headers = { ...JSON_ONLY, cookie, 'x-csrf-token': String(session.json['csrf_token']) }
    const issued = await backend.request('POST', '/settings/api-keys', { headers, body: NEW_KEY })
    t.equal(issued.status, 201)
  },
)

t.test('people and webhook endpoints are changed only after a recent password', async (t) => {
  // Regression: a person who found an abandoned session could have all events sent to themselves, see the new signing
  // secret of an endpoint, and deactivate or reactivate people.
  const { backend, member } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const endpoint = { url: 'https://erp.acme.nl/hook', events: ['*'] }
  const { json } = await ada.send('POST', '/settings/webhook-endpoints', endpoint)
  const path = `/settings/webhook-endpoints/${json['id']}`
  const person = `/settings/people/${member.id}`
  const start = backend.now.getTime()
  backend.now = new Date(start + 15 * MINUTE_MS)
  const actions: [method: string, path: string, body: object][] = [
    ['POST', '/settings/webhook-endpoints', endpoint],
    ['PUT', path, { url: 'https://other.acme.nl/hook' }],
    ['POST', `${path}/rotate-secret`, {}],
    ['POST', `${person}/deactivate`, {}],
    ['POST', `${person}/reactivate`, {}],
  ]
  for (const [method, action, body] of actions) {
    const response = await ada.send(method, action, body)
    t.strictSame([response.status, response.json['code']], [403, 'confirmation_required'], action)
  }
  for (const form of ['/settings/webhook-endpoints/new', `${path}/edit`, `${person}/deactivate`]) {
    const next = `/settings/confirm?next=${encodeURIComponent(form)}`
    t.equal((await ada.page(form)).headers.get('location'), next)
  }
  for (const action of ['pause', 'resume', 'remove']) {
    t.ok((await ada.send('POST', `${path}/${action}`)).status < 300, action)
  }
})

t.test('a form is shown only if the password counts as recent for five more minutes', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const start = backend.now.getTime()
  backend.now = new Date(start + 10 * MINUTE_MS - 1)
  t.equal((await ada.page('/settings/api-keys/new')).status, 200)
  backend.now = new Date(start + 10 * MINUTE_MS)
  t.equal((await ada.page('/settings/api-keys/new')).status, 303)
  t.equal((await ada.send('POST', '/settings/api-keys', NEW_KEY)).status, 201)
})

t.test(
  'after a confirmation, only pages of Settings can be the target of the redirect',
  async (t) => {
    const { backend } = await startSettings(t)
    const targets: [next: string, location: string][] = [
      ['/settings/api-keys/new', '/settings/api-keys/new'],
      ['https://evil.example/settings', '/settings'],
      ['//evil.example', '/settings'],
      ['/settings/../evil', '/settings'],
      ['/settings\\@evil.example', '/settings'],
    ]
    for (const [next, location] of targets) {
      const ada = await logIn(backend, ADMIN)
      const { headers } = await ada.submit('/settings/confirm', { password: PASSWORD, next })
      t.equal(headers.get('location'), location, next)
    }
  },
)

t.test('a form that is sent without a recent password is kept until one is entered', async (t) => {
  // Regression: an error page led to the confirmation, and what was entered in the form was lost.
  const { backend, admin } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const own = { csrf_token: ada.csrf, form_user: admin.id }
  backend.now = new Date(backend.now.getTime() + 15 * MINUTE_MS)
  const endpoints = '/settings/webhook-endpoints'
  const form = { url: 'https://erp.acme.nl/hook', description: 'ERP "1" <b>', events: '*' }
  const kept = await ada.submit(endpoints, form)
  t.equal(kept.status, 403)
  t.strictSame(sentBy(kept.text, endpoints), { ...own, ...form, password: '' })
  const wrong = await ada.submit(endpoints, { ...form, password: 'wrong' })
  t.equal(wrong.status, 422)
  t.ok(wrong.text.includes('This is not your current password.'))
  t.strictSame(sentBy(wrong.text, endpoints), { ...own, ...form, password: '' })
  const count = async (cookie: string) => {
    const headers = { ...JSON_ONLY, cookie }
    const { json } = await backend.request('GET', endpoints, { headers })
    return Array.from(Object(json['data'])).length
  }
  t.equal(await count(ada.cookie), 0)
  const created = await ada.submit(endpoints, { ...form, password: PASSWORD })
  t.equal(created.status, 201)
  const cookie = cookieOf(created)
  t.not(cookie, ada.cookie, 'the session has a new token')
  t.equal(await count(cookie), 1)
  t.equal((await ada.submit(endpoints, { ...form, password: PASSWORD })).status, 401)
  t.equal(await count(cookie), 1)
})

t.test('an edit that is kept still changes only what the person has changed', async (t) => {
  const { backend, admin } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const own = { csrf_token: ada.csrf, form_user: admin.id }
  const { json } = await ada.send('POST', '/settings/webhook-endpoints', {
    ...{ url: 'https://erp.acme.nl/hook', description: 'ERP', events: ['*'] },
  })
  const path = `/settings/webhook-endpoints/${json['id']}`
  const shown = JSON.stringify({ url: json['url'], description: 'ERP', events: ['*'] })
  const form = { url: 'https://other.acme.nl/hook', description: 'ERP', events: '*', shown }
  await ada.send('PUT', path, { description: 'Shop' })
  backend.now = new Date(backend.now.getTime() + 15 * MINUTE_MS)
  const kept = await ada.submit(path, form)
  t.strictSame(sentBy(kept.text, path), { ...own, ...form, password: '' })
  const saved = await ada.submit(path, { ...form, password: PASSWORD })
  t.equal(saved.headers.get('location'), path)
  const stored = await backend.request('GET', path, {
    headers: { ...JSON_ONLY, cookie: cookieOf(saved) },
  })
  matches(t, stored.json, { url: form.url, description: 'Shop', events: ['*'] })
})

t.test('wrong passwords for a kept form are limited like other guesses', async (t) => {
  const { backend, member } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  backend.now = new Date(backend.now.getTime() + 15 * MINUTE_MS)
  const path = `/settings/people/${member.id}/deactivate`
  const statuses: number[] = []
  for (let guesses = 0; guesses < 20 && statuses.at(-1) !== 429; guesses++) {
    statuses.push((await ada.submit(path, { password: 'wrong' })).status)
  }
  t.equal(statuses.at(-1), 429)
  t.equal((await ada.submit(path, { password: PASSWORD })).status, 429)
})

t.test(
  'what customers read, and where they reply, is changed only after a recent password',
  async (t) => {
    // Regression: a person who found an abandoned session could write another bank account into the reminders, or
    // receive the customers' replies.
    const { backend, admin } = await startSettings(t)
    const ada = await logIn(backend, ADMIN)
    const { json: wording } = await ada.get('/settings/wording/firm-en')
    const { subject, greeting, opening, opening_several, closing, sign_off } = wording
    const texts = { subject, greeting, opening, opening_several, closing, sign_off }
    backend.now = new Date(backend.now.getTime() + 15 * MINUTE_MS)
    const actions: [method: string, path: string, body: object][] = [
      ['PUT', '/settings/wording/firm-en', texts],
      ['PUT', '/settings/sender', { name: 'Acme' }],
      ['POST', '/settings/sender/logo', { logo: 'aGk=' }],
      ['PUT', '/settings/schedule', { reply_to: 'ar@acme.nl' }],
    ]
    for (const [method, path, body] of actions) {
      const response = await ada.send(method, path, body)
      t.strictSame([response.status, response.json['code']], [403, 'confirmation_required'], path)
    }
    t.equal((await ada.send('PUT', '/settings/schedule', { chase_from: '2026-01-01' })).status, 200)
    t.equal((await ada.send('POST', '/settings/wording/firm-en/reset')).status, 200)
    const kept = await ada.submit('/settings/sender', { name: 'Acme Billing' })
    const sent = { csrf_token: ada.csrf, form_user: admin.id, name: 'Acme Billing', password: '' }
    t.strictSame([kept.status, sentBy(kept.text, '/settings/sender')], [403, sent])
  },
)

t.test('a confirmation that is cancelled leads back to the page of the action', async (t) => {
  const { backend, account, member } = await startSettings(t)
  const key = await backend.issueKey(account.id)
  const pages: [action: string, page: string][] = [
    ['/settings/two-factor/setup', '/settings/two-factor'],
    ['/settings/two-factor/recovery-codes', '/settings/two-factor'],
    ['/settings/two-factor/disable', '/settings/two-factor'],
    ['/settings/two-factor/policy', '/settings/two-factor'],
    ['/settings/payment-details/EUR/remove', '/settings/payment-details/EUR'],
    ['/settings/passkeys/pk_none/remove', '/settings/passkeys/pk_none/remove'],
    [`/settings/people/${member.id}/role`, `/settings/people/${member.id}/role`],
    [`/settings/api-keys/${key.row.id}/rotate`, `/settings/api-keys/${key.row.id}/rotate`],
    ['/settings/api-keys', '/settings/api-keys'],
    [`/settings/people/${member.id}/reactivate`, '/settings/people'],
    ['/settings/sender/logo', '/settings/sender'],
  ]
  const ada = await logIn(backend, ADMIN)
  backend.now = new Date(backend.now.getTime() + 15 * MINUTE_MS)
  for (const [action, page] of pages) {
    const { status, text } = await ada.submit(action, {})
    t.equal(status, 403, action)
    t.ok(text.includes(`href="${page}" data-cancel`), action)
  }
})

t.test('a page with a query is shown with the query after the confirmation', async (t) => {
  // Regression: the form for payment details had lost the currency.
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  backend.now = new Date(backend.now.getTime() + 10 * MINUTE_MS)
  const page = '/settings/payment-details/new?currency=USD'
  const { headers } = await ada.page(page)
  const confirm = new URL(String(headers.get('location')), 'https://receivables.example')
  const next = String(confirm.searchParams.get('next'))
  t.equal(next, page)
  const confirmed = await ada.submit('/settings/confirm', { password: PASSWORD, next })
  t.equal(confirmed.headers.get('location'), page)
})

t.test('a person sees and ends only their own sessions', async (t) => {
  const { backend } = await startSettings(t)
  const laptop = await logIn(backend, ADMIN)
  const phone = await logIn(backend, ADMIN)
  const mia = await logIn(backend, MEMBER)
  const { json } = await laptop.get('/settings/sessions')
  const sessions = json['data'] as { id: string; current: boolean; ends_at: string }[]
  t.strictSame(sessions.map(({ current, ends_at }) => [current, ends_at]).sort(), [
    [false, '2026-11-21T10:45:00.000Z'],
    [true, '2026-11-21T10:45:00.000Z'],
  ])
  const other = sessions.find(({ current }) => !current)?.id ?? ''
  t.equal((await mia.send('POST', `/settings/sessions/${other}/end`)).status, 404)
  t.equal((await phone.get('/settings/session')).status, 200)
  t.equal((await laptop.send('POST', `/settings/sessions/${other}/end`)).status, 204)
  t.equal((await phone.get('/settings/session')).status, 401)
  t.equal((await laptop.get('/settings/session')).status, 200)
  t.ok((await laptop.page('/settings/login-details')).text.includes('this session'))
})

t.test('the pages that change a role or deactivate a person state the consequences', async (t) => {
  const { backend, admin, member } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  await logIn(backend, MEMBER)
  const rolePage = await ada.page(`/settings/people/${member.id}/role`)
  t.ok(rolePage.text.includes('can issue and revoke API keys'))
  const deactivationPage = await ada.page(`/settings/people/${member.id}/deactivate`)
  t.ok(deactivationPage.text.includes('logged out of one session immediately'))
  const people = await ada.page('/settings/people')
  t.notOk(people.text.includes(`/settings/people/${admin.id}/role`))
  t.ok(people.text.includes('The last Admin must keep the role.'))
  const mia = await logIn(backend, MEMBER)
  for (const action of ['role', 'deactivate']) {
    t.equal((await mia.page(`/settings/people/${member.id}/${action}`)).status, 403)
  }
})

t.test('a wrong password in a session is in the audit log', async (t) => {
  // Regression: guesses at the password by a person who uses another person's session left no trace.
  const { backend, member } = await startSettings(t)
  const mia = await logIn(backend, MEMBER)
  const change = { current_password: 'wrong', new_password: 'a walk along the canal' }
  t.equal((await mia.send('POST', '/settings/confirm', { password: 'wrong' })).status, 422)
  t.equal((await mia.send('POST', '/settings/password', change)).status, 422)
  const ada = await logIn(backend, ADMIN)
  const { json } = await ada.get('/settings/audit-log')
  const failed = { action: 'user.confirmation_failed', subject_id: member.id }
  const logged = { action: 'user.logged_in' }
  const by = { actor: { label: MEMBER } }
  matches(t, Array.from(Object(json['data'])).slice(0, 4), [
    logged,
    { ...failed, ...by },
    { ...failed, ...by },
    logged,
  ])
})
