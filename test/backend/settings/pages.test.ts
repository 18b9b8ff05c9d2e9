// Pages of Settings: security headers, escaping, sessions, roles, and secrets that no page may contain.
import { readFileSync } from 'node:fs'
import { load } from 'js-yaml'
import t from 'tap'
import { SETTINGS_PROBLEM_TYPES } from '../../../shared/contract/problem.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import {
  ADMIN,
  cookieOf,
  FORM,
  JSON_ONLY,
  logIn,
  MEMBER,
  PASSWORD,
  startSettings,
} from '../../fixtures/service/settings.ts'

const PAGES = [
  '/settings/api-keys',
  '/settings/api-keys/new',
  '/settings/scope-allowance',
  '/settings/people',
  '/settings/audit-log',
  '/settings/login-details',
]

t.test('pages, errors and redirects have the security headers', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const html = { headers: { accept: 'text/html' } }
  const responses = [
    ...(await Promise.all(PAGES.map((path) => ada.page(path)))),
    await ada.page('/settings/nowhere'),
    await ada.page('/settings/api-keys/key_none'),
    await ada.get('/settings/api-keys'),
    await ada.get('/settings/nowhere'),
    await ada.submit('/settings/api-keys', { name: '' }),
    await backend.request('GET', '/settings/login', html),
    await backend.request('GET', '/settings/api-keys', html),
    await backend.request('POST', '/settings/login', { headers: FORM, body: 'email=a' }),
  ]
  for (const { status, headers } of responses) {
    matches(
      t,
      Object.fromEntries(headers),
      {
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'",
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'strict-transport-security': /^max-age=\d{8}/,
        'cache-control': 'no-store',
      },
      String(status),
    )
  }
})

t.test('styles and scripts are files of the service, which browsers may cache', async (t) => {
  const { backend } = await startSettings(t)
  const { text } = await backend.request('GET', '/settings/login', {
    headers: { accept: 'text/html' },
  })
  t.notMatch(text, /<style|style="|\son\w+="|javascript:/)
  const scripts = text.match(/<script[^>]*>[^<]*/g) ?? []
  t.equal(scripts.length, 3)
  for (const script of scripts) matches(t, script, /^<script type="module" src="\/settings\/assets/)
  for (const [, path = ''] of text.matchAll(/"(\/settings\/assets\/[^"]+)"/g)) {
    const asset = await backend.request('GET', path)
    matches(t, [asset.status, asset.headers.get('cache-control')], [200, /immutable/], path)
  }
})

// Regression: a weight of 0 was ignored, so HTML was sent although the client had excluded it.
t.test('a page is HTML if the client accepts HTML, and JSON if it accepts only JSON', async (t) => {
  const { backend } = await startSettings(t)
  for (const [accept, status] of [
    ['text/html', 303],
    ['Text/HTML;q=0.5, application/json', 303],
    ['*/*', 303],
    ['application/json', 401],
    ['application/problem+json', 401],
    ['application/json, text/html;q=0', 401],
    ['application/json;q=0.0, */*', 303],
  ] as const) {
    const response = await backend.request('GET', '/settings/api-keys', { headers: { accept } })
    t.equal(response.status, status, accept)
  }
})

t.test('without a session, pages redirect to the login and changes are rejected', async (t) => {
  const { backend } = await startSettings(t)
  for (const path of PAGES) {
    const page = await backend.request('GET', path, { headers: { accept: 'text/html' } })
    matches(t, [page.status, page.headers.get('location')], [303, '/settings/login'], path)
  }
  matches(t, await backend.request('GET', '/settings/api-keys', { headers: JSON_ONLY }), {
    status: 401,
    json: { code: 'not_logged_in' },
  })
  const posted = await backend.request('POST', '/settings/api-keys', {
    headers: FORM,
    body: 'name=x',
  })
  matches(t, [posted.status, posted.text], [401, /Your session has ended/])
})

t.test('entered text is escaped on the pages that show it', async (t) => {
  const { backend, account } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const payloads = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' autofocus onfocus='alert(1)",
    '</title><svg onload=alert(1)>',
    'javascript:alert(1)',
    '{{7*7}}#{7*7}<%= 7*7 %>',
    '&lt;script&gt;',
  ]
  for (const name of payloads) {
    const issued = await ada.submit('/settings/api-keys', { name, scopes: 'debtors:read' })
    t.equal(issued.status, 201)
    t.notOk(issued.text.includes(name) && /[<>"]/.test(name), 'the page with the secret escapes it')
    const rejected = await ada.submit('/settings/api-keys', { name })
    t.equal(rejected.status, 422)
    t.notOk(rejected.text.includes(name) && /[<>"]/.test(name), 'the rejected form escapes it')
    await ada.submit('/settings/people', { email: `${name}@x.example`, role: 'member' })
    await backend.request('POST', '/settings/login', {
      headers: JSON_ONLY,
      body: { email: name, password: 'x' },
    })
  }
  const rows = await backend.database.read.selectFrom('api_keys').selectAll().execute()
  const ownKeys = rows.filter((row) => row.account_id === account.id)
  t.equal(ownKeys.length, payloads.length)
  const pages = [...PAGES, ...ownKeys.map(({ id }) => `/settings/api-keys/${id}`)]
  for (const path of [...pages, ...ownKeys.map(({ id }) => `/settings/api-keys/${id}/revoke`)]) {
    const { status, text } = await ada.page(path)
    t.equal(status, 200)
    t.notMatch(text, /<script>|<img|<svg onload|onfocus='/, path)
  }
  const list = await ada.page('/settings/api-keys')
  matches(t, list.text, containing('&lt;script&gt;alert(1)&lt;/script&gt;'))
  matches(t, list.text, containing('&amp;lt;script&amp;gt;'))
})

t.test('a form that is sent twice issues one key', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const form = await ada.page('/settings/api-keys/new')
  const submission = /name="submission" value="([\w-]+)"/.exec(form.text)?.[1] ?? ''
  const fields = { name: 'ERP', scopes: 'debtors:read', submission }
  t.equal((await ada.submit('/settings/api-keys', { ...fields, name: '' })).status, 422)
  const responses = await Promise.all([1, 2, 3].map(() => ada.submit('/settings/api-keys', fields)))
  t.strictSame(responses.map(({ status }) => status).toSorted(), [201, 409, 409])
  const repeated = responses.find(({ status }) => status === 409)
  matches(t, repeated?.text, containing('This key was already issued.'))
  t.notMatch(repeated?.text, /rcv_\w{8}_/)
  matches(t, (await ada.get('/settings/api-keys')).json['data'], [{ name: 'ERP' }])
})

t.test(
  'the message that a key was issued is repeated on the next page, and on no other',
  async (t) => {
    const { backend } = await startSettings(t)
    const ada = await logIn(backend, ADMIN)
    const issued = await ada.submit('/settings/api-keys', { name: 'ERP', scopes: 'debtors:read' })
    matches(t, issued.text, containing('Key issued. It cannot be shown again.'))
    t.equal(issued.headers.get('location'), null)
    matches(
      t,
      (await ada.page('/settings/api-keys')).text,
      containing('Key issued. It cannot be shown again.'),
    )
    t.notMatch((await ada.page('/settings/api-keys')).text, 'Key issued.')
  },
)

t.test('malformed forms, JSON bodies and queries are rejected', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const send = (body: string) =>
    backend.request('POST', '/settings/api-keys', {
      headers: { ...FORM, cookie: ada.cookie, 'x-csrf-token': ada.csrf },
      body,
    })
  for (const body of [
    'name=a&name=b&scopes=debtors%3Aread',
    'name=%FF&scopes=debtors%3Aread',
    'name=%zz&scopes=debtors%3Aread',
    'name=a%00b&scopes=debtors%3Aread',
    'name=a&scopes=debtors%3Aread&rate_limit=9',
    Array.from({ length: 101 }, () => 'scopes=debtors%3Aread').join('&'),
  ]) {
    t.equal((await send(body)).status, 400, body.slice(0, 60))
  }
  // Regression: half of a character was accepted in an address, and stored as another character.
  const invited = await ada.send('POST', '/settings/people', {
    email: 'a\ud800@x.nl',
    role: 'admin',
  })
  matches(t, invited, { status: 422, text: /without NUL and lone surrogates/ })
  matches(t, await ada.get('/settings/audit-log?limit=0'), { status: 400 })
  matches(t, await ada.get('/settings/api-keys/new'), { status: 406 })
  const unknown = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`f${n}`, n]))
  matches(t, await ada.send('POST', '/settings/api-keys', unknown), { status: 400 })
  // Regression: the response was a 500.
  const scopes = Array(130_000).fill(0)
  matches(t, await ada.send('POST', '/settings/api-keys', { name: 'ERP', scopes }), {
    status: 400,
    json: { code: 'malformed_json' },
  })
})

t.test('the link to the next page keeps the limit', async (t) => {
  // Regression: the next page of the audit log, the keys, the messages and the imports had the default limit.
  const { backend, account } = await startSettings(t)
  await Promise.all([1, 2, 3].map(() => backend.issueKey(account.id)))
  const ada = await logIn(backend, ADMIN)
  for (const [path, rows] of [
    ['/settings/audit-log', /data-label="What"/g],
    ['/settings/api-keys', /href="[^"]*api-keys\/key_\w+">/g],
  ] as const) {
    const { text } = await ada.page(`${path}?limit=1`)
    const [, next = ''] = /href="([^"]*)" rel="next"/.exec(text) ?? []
    const second = await ada.page(next.replaceAll('&amp;', '&'))
    t.equal(second.text.match(rows)?.length, 1, path)
    matches(t, second.text, /limit=1&amp;[^"]*" rel="next"/, path)
  }
})

t.test('a Member sees the same pages without the actions of Admins', async (t) => {
  const { backend, account } = await startSettings(t)
  const { row } = await backend.issueKey(account.id)
  const mia = await logIn(backend, MEMBER)
  for (const path of [
    '/settings/api-keys',
    `/settings/api-keys/${row.id}`,
    '/settings/scope-allowance',
  ]) {
    const { status, text } = await mia.page(path)
    t.equal(status, 200)
    t.notMatch(text, /revoke|Issue key|>Save</i, path)
  }
  for (const path of ['/settings/api-keys/new', `/settings/api-keys/${row.id}/revoke`]) {
    const { status, text } = await mia.page(path)
    matches(t, [status, text], [403, /Only an Admin can issue or revoke API keys\./])
  }
})

t.test(
  'pages say that an account is read-only; its keys can still be issued and revoked',
  async (t) => {
    const { backend, account } = await startSettings(t)
    const ada = await logIn(backend, ADMIN)
    await backend.database.transaction((tx) =>
      tx
        .updateTable('accounts')
        .set({ status: 'suspended' })
        .where('id', '=', account.id)
        .execute(),
    )
    matches(
      t,
      (await ada.page('/settings/api-keys')).text,
      containing('This account is read-only.'),
    )
    const issued = await ada.send('POST', '/settings/api-keys', {
      name: 'a',
      scopes: ['debtors:read'],
    })
    t.equal(issued.status, 201)
    const revoked = await ada.send('POST', `/settings/api-keys/${issued.json['id']}/revoke`)
    t.equal(revoked.status, 200)
  },
)

t.test('no secret, password or token is on a page or in the database', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const issued = await ada.submit('/settings/api-keys', { name: 'ERP', scopes: 'debtors:read' })
  const secret = /rcv_\w{8}_\w{49}/.exec(issued.text)?.[0] ?? ''
  t.not(secret, '')
  const invited = await ada.send('POST', '/settings/people', {
    email: 'e@x.example',
    role: 'member',
  })
  const code = String(invited.json['link']).split('#')[1] ?? ''
  const canaries = [
    secret,
    secret.slice(13),
    PASSWORD,
    cookieOf(ada.response).split('=')[1] ?? '',
    code,
  ]
  const keys = await backend.database.read.selectFrom('api_keys').select('id').execute()
  for (const path of [...PAGES, ...keys.map(({ id }) => `/settings/api-keys/${id}`)]) {
    const outputs = [(await ada.page(path)).text, (await ada.get(path)).text]
    for (const canary of canaries)
      t.notOk(
        outputs.some((text) => text.includes(canary)),
        path,
      )
  }
  for (const table of [
    'sessions',
    'users',
    'api_keys',
    'audit_log',
    'invitations',
    'key_submissions',
    'login_guesses',
  ] as const) {
    const rows = JSON.stringify(await backend.database.read.selectFrom(table).selectAll().execute())
    for (const canary of canaries) t.notOk(rows.includes(canary), table)
  }
})

interface Document {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { readonly description: string }>>>
  >
}

function readDocument() {
  const url = new URL('../../../shared/contract/settings-openapi.yaml', import.meta.url)
  const file = readFileSync(url, 'utf8')
  return { file, ...(load(file) as Document) }
}

// Regression: the document omitted five codes, such as `webhook_secret_overlap`.
t.test('the OpenAPI document of Settings lists its codes, and operations that exist', async (t) => {
  const { backend } = await startSettings(t)
  const { file, paths } = readDocument()
  const [, codes = ''] =
    /description: One of these codes, .+\n\s+examples:\n((?:\s+- \w+\n)+)/.exec(file) ?? []
  // Only the route that receives mail returns this code.
  const { invalid_mail_secret: _, ...returned } = SETTINGS_PROBLEM_TYPES
  t.strictSame(codes.match(/\w+/g)?.sort(), Object.keys(returned).sort())
  for (const [path, operations] of Object.entries(paths)) {
    for (const method of Object.keys(operations)) {
      const response = await backend.request(method.toUpperCase(), path.replace('{id}', 'x'), {
        headers: JSON_ONLY,
        ...(method === 'get' ? {} : { body: {} }),
      })
      const isOpen = path === '/settings/login/passkey/challenge'
      const expected = isOpen ? [200] : [401, 422]
      t.ok(expected.includes(response.status), `${method} ${path}: ${response.status}`)
    }
    t.equal(
      (await backend.request('DELETE', path.replace('{id}', 'x'), { headers: JSON_ONLY })).status,
      404,
      'no path accepts DELETE',
    )
  }
})

// Regression: the descriptions of five operations, such as issuing a key, did not say that they need a recent password.
t.test('the OpenAPI document of Settings says what needs a recent password', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  backend.now = new Date(backend.now.getTime() + 15 * 60_000)
  // The other operations check the password themselves, or end the session.
  const isIncluded = ([path]: [string, unknown]) =>
    !/^\/settings\/(login|logout|confirm|password|new-password|invitation$)/.test(path)
  for (const [path, operations] of Object.entries(readDocument().paths).filter(isIncluded)) {
    for (const [method, { description }] of Object.entries(operations)) {
      const body = path === '/settings/schedule' ? { reply_to: '' } : {}
      const { json } = await ada.send(
        method.toUpperCase(),
        path.replace('{id}', 'x'),
        method === 'get' ? undefined : body,
      )
      const says = /within\s+the\s+last\s+15\s+minutes/.test(description)
      const needs = json['code'] === 'confirmation_required'
      t.equal(says, needs, `${method} ${path}`)
    }
  }
})
