// API keys, scopes and people in Settings, as JSON.
import t from 'tap'
import { containing, matches } from '../../fixtures/matches.ts'
import { ADMIN, logIn, MEMBER, startSettings } from '../../fixtures/service/settings.ts'

const NEW_KEY = { name: 'ERP', scopes: ['debtors:read', 'payments:write'] }

t.test('an Admin issues, lists, uses and revokes a key', async (t) => {
  const { backend, admin, account } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const user = {
    id: admin.id,
    email: ADMIN,
    role: 'admin',
    account_id: account.id,
    account_name: account.name,
  }
  matches(t, ada.response, { status: 200, json: { user, csrf_token: /^[\w-]{43}$/ } })
  matches(t, await ada.get('/settings/session'), {
    status: 200,
    json: { user, csrf_token: ada.csrf },
  })

  const issued = await ada.send('POST', '/settings/api-keys', NEW_KEY)
  matches(t, issued, {
    status: 201,
    json: { ...NEW_KEY, prefix: /^rcv_/, secret: /^rcv_/, last_used_at: null, status: 'active' },
  })
  const id = String(issued.json['id'])
  const listed = await ada.get('/settings/api-keys')
  matches(t, listed, { status: 200, json: { object: 'list', data: [{ id, name: 'ERP' }] } })
  t.notMatch(listed.text, String(issued.json['secret']))

  const revoked = await ada.send('POST', `/settings/api-keys/${id}/revoke`)
  matches(t, revoked, {
    status: 200,
    json: { id, status: 'revoked', revoked_by: ADMIN, revoked_at: /Z$/ },
  })
  t.strictSame((await ada.send('POST', `/settings/api-keys/${id}/revoke`)).json, revoked.json)

  const log = await ada.get('/settings/audit-log')
  matches(t, log.json['data'], [
    { action: 'api_key.revoked', actor: { label: ADMIN }, subject_id: id },
    { action: 'api_key.issued' },
    { action: 'user.logged_in' },
    { action: 'user.created' },
    { action: 'user.created' },
    { action: 'account.created' },
  ])
  t.equal((await ada.send('POST', '/settings/logout')).status, 204)
  matches(t, await ada.get('/settings/session'), { status: 401, json: { code: 'not_logged_in' } })
})

t.test('a long list of keys has pages, with active keys first', async (t) => {
  const { backend, account } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const ids: string[] = []
  for (let number = 0; number < 5; number++) {
    ids.push((await backend.issueKey(account.id, { name: `Key ${number}` })).row.id)
  }
  const [a, b, c, d, e] = ids
  for (const id of [a, c]) await ada.send('POST', `/settings/api-keys/${id}/revoke`)
  const seen: unknown[] = []
  let cursor = ''
  for (let pages = 0; pages < 3; pages++) {
    const { json } = await ada.get(`/settings/api-keys?limit=2&cursor=${cursor}`)
    seen.push(...(json['data'] as { id: string }[]).map(({ id }) => id))
    cursor = String(json['next_cursor'] ?? '')
    t.equal(json['has_more'], pages < 2)
  }
  t.strictSame(seen, [b, d, e, a, c])
  const revoked = await ada.get('/settings/api-keys?status=revoked')
  matches(t, revoked.json, { data: [{ id: a }, { id: c }], has_more: false })
  for (const query of ['status=lost', 'limit=201', 'cursor=key_none', 'colour=red']) {
    t.equal((await ada.get(`/settings/api-keys?${query}`)).status, 400, query)
  }
  const first = await ada.page('/settings/api-keys?limit=2')
  matches(t, first.text, /Key 1.*Key 3.*More active keys.*Show revoked \(2\).*Key 0/s)
  t.notMatch(first.text, 'Key 4')
  const next = await ada.page(`/settings/api-keys?status=active&limit=2&cursor=${d}`)
  matches(t, next.text, /Key 4.*All keys/s)
  t.notMatch(next.text, /Key 0|More active keys/)
})

t.test('an invalid name or scope of a key is rejected with the specified message', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const mia = await logIn(backend, MEMBER)
  const issue = (body: unknown) => ada.send('POST', '/settings/api-keys', body)
  matches(t, await issue({ ...NEW_KEY, name: '  ' }), {
    status: 422,
    json: {
      code: 'validation_failed',
      errors: [{ pointer: '/name', detail: 'Give the key a name.' }],
    },
  })
  matches(t, await issue({ name: 'ERP', scopes: [] }), {
    status: 422,
    json: {
      errors: [{ pointer: '/scopes', detail: 'Choose at least one thing the key may do.' }],
    },
  })
  matches(t, await issue({}), {
    status: 422,
    json: { detail: 'Give the key a name. Choose at least one thing the key may do.' },
  })
  t.equal((await issue({ ...NEW_KEY, name: '🧾'.repeat(80) })).status, 201)
  matches(t, await issue({ ...NEW_KEY, name: '🧾'.repeat(81) }), {
    status: 422,
    json: { errors: [{ pointer: '/name', code: 'too_long' }] },
  })
  matches(t, await issue({ ...NEW_KEY, scopes: ['debtors:delete'] }), { status: 422 })
  matches(t, await issue({ ...NEW_KEY, colour: 'red' }), {
    status: 422,
    json: { errors: [{ pointer: '/colour', code: 'unknown_field' }] },
  })
  matches(t, await issue({ name: 7, scopes: 'debtors:read' }), {
    status: 422,
    json: { errors: [{ pointer: '/name' }, { pointer: '/scopes' }] },
  })
  const rejected = {
    status: 403,
    json: { code: 'admin_required', detail: 'Only an Admin can issue or revoke API keys.' },
  }
  matches(t, await mia.send('POST', '/settings/api-keys', NEW_KEY), rejected)
  matches(t, await mia.send('POST', '/settings/api-keys/key_1/revoke'), rejected)
  matches(t, await mia.get('/settings/api-keys'), { status: 200 })
})

t.test('a Member gets 403 for actions and pages that are for Admins only', async (t) => {
  const { backend, admin } = await startSettings(t)
  const mia = await logIn(backend, MEMBER)
  for (const [method, path] of [
    ['POST', '/settings/api-keys'],
    ['PUT', '/settings/scope-allowance'],
    ['POST', '/settings/scope-allowance'],
    ['GET', '/settings/audit-log'],
    ['GET', '/settings/people'],
    ['POST', '/settings/people'],
    ['POST', `/settings/people/${admin.id}/role`],
    ['POST', `/settings/people/${admin.id}/deactivate`],
    ['POST', `/settings/people/${admin.id}/reactivate`],
    ['POST', '/settings/invitations/ivt_1/withdraw'],
  ] as const) {
    const response = method === 'GET' ? await mia.get(path) : await mia.send(method, path, {})
    matches(t, response, { status: 403, json: { code: 'admin_required' } }, `${method} ${path}`)
  }
  for (const path of ['/settings/api-keys', '/settings/scope-allowance', '/settings/session']) {
    t.equal((await mia.get(path)).status, 200, path)
  }
})

t.test('requests for keys and people of other accounts get 404', async (t) => {
  const { backend, member, createUser } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const { row } = await backend.createKey()
  t.strictSame((await ada.get('/settings/api-keys')).json['data'], [])
  matches(t, await ada.get(`/settings/api-keys/${row.id}`), { status: 404 })
  matches(t, await ada.send('POST', `/settings/api-keys/${row.id}/revoke`), { status: 404 })
  const other = await backend.createAccount({ name: 'Other' })
  const bob = await createUser(other.id, 'bob@other.example', 'admin')
  matches(t, await ada.send('POST', `/settings/people/${bob.id}/deactivate`), { status: 404 })
  matches(t, await ada.send('POST', `/settings/people/${member.id}/deactivate`), { status: 200 })
})

t.test('a restriction of the account-wide scopes applies from the next call on', async (t) => {
  const { backend, account } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const key = await backend.issueKey(account.id, { scopes: ['debtors:read', 'invoices:read'] })
  const restrictTo = (scopes: unknown) => ada.send('PUT', '/settings/scope-allowance', { scopes })
  matches(t, await restrictTo(['invoices:read']), {
    status: 200,
    json: { scopes: ['invoices:read'] },
  })
  t.equal((await backend.call(key, 'GET', '/api/v1/debtors')).status, 403)
  matches(t, (await ada.get('/settings/api-keys')).json['data'], [
    { scopes: ['debtors:read', 'invoices:read'], effective_scopes: ['invoices:read'] },
  ])
  matches(t, await restrictTo([]), { status: 200, json: { scopes: [] } })
  t.equal((await backend.call(key, 'GET', '/api/v1/me')).status, 200)
  matches(t, await ada.send('PUT', '/settings/scope-allowance', {}), { status: 422 })
  matches(t, await restrictTo(['nothing']), { status: 422 })
  const { json } = await ada.get('/settings/scope-allowance')
  t.strictSame(json, { scopes: [] })
})

t.test('calls are counted by hour and day, and by status class', async (t) => {
  const { backend, account } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const key = await backend.issueKey(account.id)
  await backend.call(key, 'GET', '/api/v1/me')
  await backend.call(key, 'GET', '/api/v1/debtors/deb_none')
  await backend.call(key, 'GET', '/api/v1/debtors')
  const { json } = await ada.get(`/settings/api-keys/${key.row.id}`)
  const usage = Object(json['usage'])
  t.equal(usage.calls_by_hour.length, 24)
  t.equal(usage.calls_by_day.length, 30)
  const counts = { succeeded: 2, refused: 1, failed: 0 }
  matches(t, usage.calls_by_hour.at(-1), { at: '2026-11-21T10:00:00.000Z', ...counts })
  matches(t, usage.calls_by_day.at(-1), { at: '2026-11-21T00:00:00.000Z', ...counts })
})

t.test('the list of people has pages, and only the last Admin must keep the role', async (t) => {
  const { backend, account, createUser } = await startSettings(t)
  for (const n of [1, 2, 3]) await createUser(account.id, `user${n}@acme.example`, 'member')
  const ada = await logIn(backend, ADMIN)
  const emailsOf = (json: Readonly<Record<string, unknown>>) =>
    (json['data'] as { email: string }[]).map(({ email }) => email)
  const all = emailsOf((await ada.get('/settings/people')).json)
  t.equal(all.length, 5)
  const first = (await ada.get('/settings/people?limit=3')).json
  t.strictSame(emailsOf(first), all.slice(0, 3))
  const cursor = String(first['next_cursor'])
  const second = (await ada.get(`/settings/people?limit=3&cursor=${cursor}`)).json
  t.strictSame([emailsOf(second), second['has_more']], [all.slice(3), false])
  const page = await ada.page('/settings/people?limit=3')
  matches(t, page.text, containing(`/settings/people?limit=3&amp;cursor=${cursor}`))
  matches(t, page.text, containing('The last Admin must keep the role.'))
  // The other Admin is on another page.
  await createUser(account.id, 'zoe@acme.example', 'admin')
  t.notOk((await ada.page('/settings/people?limit=3')).text.includes('The last Admin'))
})
