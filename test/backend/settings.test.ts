import t, { type Test } from 'tap'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { createPasswords } from '../../backend/users/passwords.ts'
import { createUser } from '../../backend/users/users.ts'
import { type Answer, startBackend, type TestBackend } from '../fixtures/backend.ts'

const PASSWORD = 'correct horse battery'
const passwordHash = await createPasswords().hash(PASSWORD)
const JSON_TYPE = { accept: 'application/json' }

async function startSettings(t: Test, baseUrl?: string) {
  const backend = await startBackend(t, baseUrl === undefined ? {} : { baseUrl })
  const account = await backend.createAccount()
  const act = { actor: OPERATOR, now: backend.now }
  const create = (email: string, role: 'admin' | 'member') =>
    backend.database.transaction((tx) =>
      createUser(tx, { accountId: account.id, email, role, passwordHash }, act),
    )
  const admin = await create('ada@acme.example', 'admin')
  const member = await create('max@acme.example', 'member')
  return { backend, account, admin, member }
}

function cookieOf({ headers }: Answer): string {
  const [cookie = ''] = headers.getSetCookie().filter((value) => value.includes('session='))
  return cookie.split(';')[0] ?? ''
}

/** A script that is logged in. */
async function logIn(backend: TestBackend, email: string, password = PASSWORD) {
  const answer = await backend.ask('POST', '/settings/login', {
    headers: JSON_TYPE,
    body: { email, password },
  })
  const cookie = cookieOf(answer)
  const csrf = String(answer.json['csrf_token'])
  const headers = { ...JSON_TYPE, cookie, 'x-csrf-token': csrf }
  return {
    answer,
    cookie,
    csrf,
    get: (path: string) => backend.ask('GET', path, { headers: { ...JSON_TYPE, cookie } }),
    send: (method: string, path: string, body?: unknown, more: Record<string, string> = {}) =>
      backend.ask(method, path, {
        headers: { ...headers, ...more },
        ...(body === undefined ? {} : { body }),
      }),
  }
}

const ISSUE = { name: 'ERP', scopes: ['debtors:read', 'payments:write'] }

t.test('an Admin issues, lists, uses and revokes a key', async (t) => {
  const { backend, admin, account } = await startSettings(t)
  const ada = await logIn(backend, 'ada@acme.example')
  const user = {
    id: admin.id,
    email: 'ada@acme.example',
    role: 'admin',
    account_id: account.id,
    account_name: account.name,
  }
  t.match(ada.answer, { status: 200, json: { user, csrf_token: /^[\w-]{43}$/ } })
  t.match(await ada.get('/settings/session'), { status: 200, json: { user, csrf_token: ada.csrf } })

  const issued = await ada.send('POST', '/settings/api-keys', ISSUE)
  t.match(issued, {
    status: 201,
    json: { ...ISSUE, prefix: /^rcv_/, secret: /^rcv_/, last_used_at: null, status: 'active' },
  })
  const id = String(issued.json['id'])
  const listed = await ada.get('/settings/api-keys')
  t.match(listed, { status: 200, json: { object: 'list', data: [{ id, name: 'ERP' }] } })
  t.notMatch(listed.text, String(issued.json['secret']))

  const revoked = await ada.send('POST', `/settings/api-keys/${id}/revoke`)
  t.match(revoked, {
    status: 200,
    json: { id, status: 'revoked', revoked_by: 'ada@acme.example', revoked_at: /Z$/ },
  })
  t.same((await ada.send('POST', `/settings/api-keys/${id}/revoke`)).json, revoked.json)

  const log = await ada.get('/settings/audit-log')
  t.match(log.json['data'], [
    { action: 'api_key.revoked', actor: { label: 'ada@acme.example' }, subject_id: id },
    { action: 'api_key.issued' },
    { action: 'user.logged_in' },
  ])
  t.equal((await ada.send('POST', '/settings/logout')).status, 204)
  t.match(await ada.get('/settings/session'), { status: 401, json: { code: 'not_logged_in' } })
})

t.test('the messages are those of the specification', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, 'ada@acme.example')
  const max = await logIn(backend, 'max@acme.example')
  const issue = (body: unknown) => ada.send('POST', '/settings/api-keys', body)
  t.match(await issue({ ...ISSUE, name: '  ' }), {
    status: 422,
    json: {
      code: 'validation_failed',
      errors: [{ pointer: '/name', detail: 'Give the key a name.' }],
    },
  })
  t.match(await issue({ name: 'ERP', scopes: [] }), {
    status: 422,
    json: {
      errors: [{ pointer: '/scopes', detail: 'Choose at least one thing the key may do.' }],
    },
  })
  t.match(await issue({}), {
    status: 422,
    json: { detail: 'Give the key a name. Choose at least one thing the key may do.' },
  })
  t.equal((await issue({ ...ISSUE, name: '🧾'.repeat(80) })).status, 201)
  t.match(await issue({ ...ISSUE, name: '🧾'.repeat(81) }), {
    status: 422,
    json: { errors: [{ pointer: '/name', code: 'too_long' }] },
  })
  t.match(await issue({ ...ISSUE, scopes: ['debtors:delete'] }), { status: 422 })
  t.match(await issue({ ...ISSUE, colour: 'red' }), {
    status: 422,
    json: { errors: [{ pointer: '/colour', code: 'unknown_field' }] },
  })
  t.match(await issue({ name: 7, scopes: 'debtors:read' }), {
    status: 422,
    json: { errors: [{ pointer: '/name' }, { pointer: '/scopes' }] },
  })
  const refused = {
    status: 403,
    json: { code: 'admin_required', detail: 'Only an Admin can issue or revoke API keys.' },
  }
  t.match(await max.send('POST', '/settings/api-keys', ISSUE), refused)
  t.match(await max.send('POST', '/settings/api-keys/key_1/revoke'), refused)
  t.match(await max.get('/settings/api-keys'), { status: 200 })
})

t.test('a Member is refused whatever is for Admins', async (t) => {
  const { backend, admin } = await startSettings(t)
  const max = await logIn(backend, 'max@acme.example')
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
    const answer = method === 'GET' ? await max.get(path) : await max.send(method, path, {})
    t.match(answer, { status: 403, json: { code: 'admin_required' } }, `${method} ${path}`)
  }
  for (const path of ['/settings/api-keys', '/settings/scope-allowance', '/settings/session']) {
    t.equal((await max.get(path)).status, 200, path)
  }
})

t.test("an account's keys, people and log are its own", async (t) => {
  const { backend, member } = await startSettings(t)
  const ada = await logIn(backend, 'ada@acme.example')
  const { row } = await backend.createKey()
  t.match((await ada.get('/settings/api-keys')).json['data'], { length: 0 })
  t.match(await ada.get(`/settings/api-keys/${row.id}`), { status: 404 })
  t.match(await ada.send('POST', `/settings/api-keys/${row.id}/revoke`), { status: 404 })
  const other = await backend.createAccount({ name: 'Other' })
  const bob = await backend.database.transaction((tx) =>
    createUser(
      tx,
      { accountId: other.id, email: 'bob@other.example', role: 'admin', passwordHash },
      { actor: OPERATOR, now: backend.now },
    ),
  )
  t.match(await ada.send('POST', `/settings/people/${bob.id}/deactivate`), { status: 404 })
  t.match(await ada.send('POST', `/settings/people/${member.id}/deactivate`), { status: 200 })
})

t.test('narrowing holds from the next call on and gives back what was granted', async (t) => {
  const { backend, account } = await startSettings(t)
  const ada = await logIn(backend, 'ada@acme.example')
  const key = await backend.issueKey(account.id, { scopes: ['debtors:read', 'invoices:read'] })
  const narrow = (scopes: unknown) => ada.send('PUT', '/settings/scope-allowance', { scopes })
  t.match(await narrow(['invoices:read']), { status: 200, json: { scopes: ['invoices:read'] } })
  t.equal((await backend.call(key, 'GET', '/api/v1/debtors')).status, 403)
  t.match((await ada.get('/settings/api-keys')).json['data'], [
    { scopes: ['debtors:read', 'invoices:read'], effective_scopes: ['invoices:read'] },
  ])
  t.match(await narrow([]), { status: 200, json: { scopes: [] } })
  t.equal((await backend.call(key, 'GET', '/api/v1/me')).status, 200)
  t.match(await ada.send('PUT', '/settings/scope-allowance', {}), { status: 422 })
  t.match(await narrow(['nothing']), { status: 422 })
  const { json } = await ada.get('/settings/scope-allowance')
  t.same(json, { scopes: [] })
})

t.test('usage is counted by hour and by how calls were answered', async (t) => {
  const { backend, account } = await startSettings(t)
  const ada = await logIn(backend, 'ada@acme.example')
  const key = await backend.issueKey(account.id)
  await backend.call(key, 'GET', '/api/v1/me')
  await backend.call(key, 'GET', '/api/v1/debtors/deb_none')
  await backend.call(key, 'GET', '/api/v1/debtors')
  const { json } = await ada.get(`/settings/api-keys/${key.row.id}`)
  const usage = Object(json['usage'])
  t.equal(usage.calls_by_hour.length, 24)
  t.equal(usage.calls_by_day.length, 30)
  const bar = { succeeded: 2, refused: 1, failed: 0 }
  t.match(usage.calls_by_hour.at(-1), { at: '2026-11-21T10:00:00.000Z', ...bar })
  t.match(usage.calls_by_day.at(-1), { at: '2026-11-21T00:00:00.000Z', ...bar })
})
