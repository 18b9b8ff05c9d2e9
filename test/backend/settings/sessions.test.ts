// Logins and sessions, tested against OWASP's recommendations for session management.
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { Transaction } from '../../../backend/database/tables.ts'
import { endSessionsOf } from '../../../backend/sessions/sessions.ts'
import { createPasswords, type Passwords } from '../../../backend/users/passwords.ts'
import { changeRole, setPasswordHash, setUserStatus } from '../../../backend/users/users.ts'
import { matches } from '../../fixtures/matches.ts'
import { startBackend } from '../../fixtures/service/backend.ts'
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

const MINUTE_MS = 60_000
const CREDENTIALS = { email: ADMIN, password: PASSWORD }

t.test(
  'over https, cookies are bound to the host; without https, only this machine can log in',
  async (t) => {
    const { backend } = await startSettings(t)
    const secure = (await logIn(backend, ADMIN)).response.headers.getSetCookie()
    matches(t, secure, [
      /^__Host-session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure$/,
      /^__Host-browser=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=34560000$/,
    ])
    const local = await startSettings(t, { baseUrl: 'http://127.0.0.1:8080' })
    const plain = (await logIn(local.backend, ADMIN)).response.headers.getSetCookie()
    matches(t, plain, [
      /^session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/,
      /^browser=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=34560000$/,
    ])
    const insecure = await startBackend(t, { baseUrl: 'http://receivables.test' })
    t.equal((await insecure.request('GET', '/settings')).status, 503)
    t.equal((await insecure.request('POST', '/settings/login', { body: CREDENTIALS })).status, 503)
  },
)

t.test('a login ignores a planted session cookie, and ends the previous session', async (t) => {
  const { backend } = await startSettings(t)
  const planted = `__Host-session=${'A'.repeat(43)}`
  const response = await backend.request('POST', '/settings/login', {
    headers: { ...JSON_ONLY, cookie: planted },
    body: CREDENTIALS,
  })
  const first = cookieOf(response)
  t.not(first, planted)
  const session = (cookie: string) =>
    backend.request('GET', '/settings/session', { headers: { ...JSON_ONLY, cookie } })
  t.equal((await session(planted)).status, 401)
  t.equal((await session(first)).status, 200)
  const again = await backend.request('POST', '/settings/login', {
    headers: { ...JSON_ONLY, cookie: first },
    body: CREDENTIALS,
  })
  t.equal((await session(first)).status, 401)
  t.equal((await session(cookieOf(again))).status, 200)
  t.equal(
    (await session(`${cookieOf(again)}; ${planted}`)).status,
    401,
    'two cookies with one name',
  )
})

t.test('only a hash of the session token is stored', async (t) => {
  const { backend } = await startSettings(t)
  const { cookie } = await logIn(backend, ADMIN)
  const rows = await backend.database.read.selectFrom('sessions').selectAll().execute()
  t.equal(rows.length, 1)
  t.notMatch(JSON.stringify(rows), cookie.split('=')[1] ?? '')
})

t.test(
  'a session ends after 30 minutes without requests, and at the latest after 12 hours',
  async (t) => {
    const { backend } = await startSettings(t)
    const startMs = backend.now.getTime()
    const ada = await logIn(backend, ADMIN)
    const statusAfter = async (minutes: number) => {
      backend.now = new Date(startMs + minutes * MINUTE_MS)
      return (await ada.get('/settings/session')).status
    }
    for (let minutes = 25; minutes < 12 * 60; minutes += 25)
      t.equal(await statusAfter(minutes), 200)
    t.equal(await statusAfter(12 * 60), 401)
    backend.now = new Date(startMs)
    const idle = await logIn(backend, ADMIN)
    backend.now = new Date(startMs + 31 * MINUTE_MS)
    t.equal((await idle.get('/settings/session')).status, 401)
  },
)

t.test(
  'a new password ends the other sessions, and logging out everywhere ends all sessions',
  async (t) => {
    const { backend } = await startSettings(t)
    const [laptop, phone] = [await logIn(backend, ADMIN), await logIn(backend, ADMIN)]
    const chosen = 'a walk along the canal'
    const change = { current_password: PASSWORD, new_password: chosen }
    matches(
      t,
      await laptop.send('POST', '/settings/password', { ...change, current_password: 'no' }),
      {
        status: 422,
        json: { errors: [{ pointer: '/current_password' }] },
      },
    )
    for (const weak of ['short', 'Password123', ADMIN]) {
      matches(
        t,
        await laptop.send('POST', '/settings/password', { ...change, new_password: weak }),
        {
          status: 422,
          json: { errors: [{ pointer: '/new_password' }] },
        },
      )
    }
    const changed = await laptop.send('POST', '/settings/password', change)
    t.equal(changed.status, 200)
    t.equal((await phone.get('/settings/session')).status, 401)
    t.equal((await laptop.get('/settings/session')).status, 401, 'the old session token is invalid')
    const kept = { headers: { ...JSON_ONLY, cookie: cookieOf(changed) } }
    t.equal((await backend.request('GET', '/settings/session', kept)).status, 200)
    t.equal((await logIn(backend, ADMIN)).response.status, 401)
    const [a, b] = [await logIn(backend, ADMIN, chosen), await logIn(backend, ADMIN, chosen)]
    t.equal((await a.send('POST', '/settings/logout-everywhere')).status, 204)
    t.equal((await b.get('/settings/session')).status, 401)
  },
)

t.test('the page after a logout says that the session has ended', async (t) => {
  const { backend } = await startSettings(t)
  const logouts: [path: string, words: string][] = [
    ['/settings/logout', 'You are logged out.'],
    ['/settings/logout-everywhere', 'You are logged out everywhere.'],
  ]
  for (const [path, words] of logouts) {
    const ada = await logIn(backend, ADMIN)
    const { status, headers } = await ada.submit(path, {})
    t.equal(status, 303)
    const { text } = await ada.page(String(headers.get('location')))
    t.ok(text.includes(`id="flash">${words}<`), words)
  }
  const other = await backend.request('GET', '/settings/login?after=key_issued', {
    headers: { accept: 'text/html' },
  })
  t.ok(other.text.includes('id="flash"></div>'), 'a URL cannot choose another message')
})

t.test('a new role applies from the next request, with a new session token', async (t) => {
  const { backend, member } = await startSettings(t)
  const [ada, mia] = [await logIn(backend, ADMIN), await logIn(backend, MEMBER)]
  const body = { name: 'ERP', scopes: ['debtors:read'] }
  t.equal((await mia.send('POST', '/settings/api-keys', body)).status, 403)
  const setRole = (role: string) => ada.send('POST', `/settings/people/${member.id}/role`, { role })
  matches(t, await setRole('admin'), { status: 200, json: { role: 'admin' } })
  const issued = await mia.send('POST', '/settings/api-keys', body)
  t.equal(issued.status, 201)
  matches(t, cookieOf(issued), /session=/)
  t.not(cookieOf(issued), mia.cookie)
  t.equal((await mia.get('/settings/session')).status, 401, 'the old session token is invalid')
  const headers = { accept: 'application/json', cookie: cookieOf(issued) }
  const next = await backend.request('GET', '/settings/session', { headers })
  t.strictSame([next.status, cookieOf(next)], [200, ''], 'the new session token is kept')
  const again = await logIn(backend, MEMBER)
  t.equal((await setRole('member')).status, 200)
  t.equal((await again.send('POST', '/settings/api-keys', body)).status, 403)
  matches(t, await setRole('owner'), { status: 422 })
})

t.test(
  'a deactivated person is logged out immediately; the last Admin cannot be deactivated',
  async (t) => {
    const { backend, admin, member } = await startSettings(t)
    const [ada, mia] = [await logIn(backend, ADMIN), await logIn(backend, MEMBER)]
    const people = `/settings/people`
    t.equal((await ada.send('POST', `${people}/${member.id}/deactivate`)).status, 200)
    t.equal((await mia.get('/settings/session')).status, 401)
    matches(t, (await logIn(backend, MEMBER)).response, {
      status: 401,
      json: { code: 'login_failed' },
    })
    const lastAdmin = { status: 409, json: { code: 'last_admin' } }
    matches(t, await ada.send('POST', `${people}/${admin.id}/deactivate`), lastAdmin)
    matches(t, await ada.send('POST', `${people}/${admin.id}/role`, { role: 'member' }), lastAdmin)
    t.equal((await ada.send('POST', `${people}/${member.id}/reactivate`)).status, 200)
    t.equal((await logIn(backend, MEMBER)).response.status, 200)
  },
)

t.test('the list of sessions names the browsers', async (t) => {
  // Regression: Edge on Android was shown as Chrome, every browser on an iPhone as Safari on iOS, and every browser on
  // an iPad as Safari on macOS.
  const { backend } = await startSettings(t)
  const android = 'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko)'
  const iphone =
    'Mozilla/5.0 (iPhone; CPU iPhone OS 17_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)'
  const ipad =
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)'
  const browsers = [
    [`${android} Chrome/131.0.0.0 Mobile Safari/537.36`, 'Chrome on Android'],
    [`${android} Chrome/131.0.0.0 Mobile Safari/537.36 EdgA/131.0.0.0`, 'Edge on Android'],
    [
      `${android} SamsungBrowser/27.0 Chrome/125.0.0.0 Mobile Safari/537.36`,
      'Samsung Internet on Android',
    ],
    [`${iphone} Version/17.7 Mobile/15E148 Safari/604.1`, 'Safari on iOS'],
    [`${iphone} CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1`, 'Chrome on iOS'],
    [`${iphone} FxiOS/133.0 Mobile/15E148 Safari/605.1.15`, 'Firefox on iOS'],
    [`${iphone} Version/17.0 EdgiOS/131.0.2903.48 Mobile/15E148 Safari/604.1`, 'Edge on iOS'],
    [`${ipad} CriOS/131 Version/11.1.1 Safari/605.1.15`, 'Chrome on iOS'],
    [`${ipad} Version/17.7 Safari/605.1.15`, 'Safari on macOS'],
  ] as const
  for (const [userAgent, name] of browsers) {
    const login = await backend.request('POST', '/settings/login', {
      headers: { ...JSON_ONLY, 'user-agent': userAgent },
      body: CREDENTIALS,
    })
    const { text } = await backend.request('GET', '/settings/login-details', {
      headers: { accept: 'text/html', cookie: cookieOf(login) },
    })
    const [, shown] = />([^<]*) <span class="hint">this session</.exec(text) ?? []
    t.equal(shown, name, userAgent)
  }
})

t.test('a person cannot end the session of another person', async (t) => {
  const { backend } = await startSettings(t)
  const [ada, mia] = [await logIn(backend, ADMIN), await logIn(backend, MEMBER)]
  const { json } = await ada.get('/settings/sessions')
  const [session] = json['data'] as { id: string }[]
  const path = `/settings/sessions/${session?.id}/end`
  t.equal((await mia.send('POST', path)).status, 404)
  t.equal((await ada.get('/settings/session')).status, 200)
  t.equal((await ada.send('POST', path)).status, 204)
})

t.test('at login, a password with a cheaper hash is hashed again', async (t) => {
  const { backend, admin } = await startSettings(t, { passwords: createPasswords() })
  matches(t, admin.password_hash, /^\$argon2id\$v=19\$m=64,t=1,p=1\$/)
  const { response } = await logIn(backend, ADMIN)
  t.equal(response.status, 200, response.text)
  const user = await backend.database.read
    .selectFrom('users')
    .select('password_hash')
    .where('id', '=', admin.id)
    .executeTakeFirstOrThrow()
  matches(t, user.password_hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.equal((await logIn(backend, ADMIN)).response.status, 200, 'the same password is still valid')
})

t.test('a change is accepted only with the CSRF token of the same session', async (t) => {
  const { backend } = await startSettings(t)
  const [ada, mia] = [await logIn(backend, ADMIN), await logIn(backend, MEMBER)]
  const other = await logIn(backend, ADMIN)
  const issue = (headers: Record<string, string>, body = 'name=ERP&scopes=debtors%3Aread') =>
    backend.request('POST', '/settings/api-keys', {
      headers: { ...FORM, cookie: ada.cookie, ...headers },
      body,
    })
  const formWith = (csrfToken: string) =>
    `name=ERP&same_name=yes&scopes=debtors%3Aread&csrf_token=${csrfToken}`
  const json = { 'content-type': 'application/json', accept: 'application/json' }
  const rejected: [string, ReturnType<typeof issue>][] = [
    ['missing', issue({})],
    ['empty', issue({}, formWith(''))],
    ["another person's", issue({}, formWith(mia.csrf))],
    ["another session's", issue({}, formWith(other.csrf))],
    ['the cookie itself', issue({}, formWith(ada.cookie.split('=')[1] ?? ''))],
    ['missing, as JSON', issue(json, '{"name":"ERP","scopes":["debtors:read"]}')],
    ['in a JSON body', issue(json, `{"name":"ERP","csrf_token":"${ada.csrf}"}`)],
    ['from another origin', issue({ origin: 'https://evil.example' }, formWith(ada.csrf))],
    ['from no origin', issue({ origin: 'null' }, formWith(ada.csrf))],
    ['from a subdomain', issue({ 'sec-fetch-site': 'same-site' }, formWith(ada.csrf))],
    ['from another site', issue({ 'sec-fetch-site': 'cross-site' }, formWith(ada.csrf))],
    [
      'from another site without an origin',
      issue({ 'sec-fetch-site': 'cross-site', origin: 'null' }, formWith(ada.csrf)),
    ],
  ]
  for (const [name, response] of rejected) {
    const { status, json: problem } = await response
    t.ok([403, 422].includes(status), `${name}: ${status} ${problem['code']}`)
  }
  t.equal((await issue({ 'content-type': 'text/plain' }, formWith(ada.csrf))).status, 415)
  t.equal((await issue({ 'content-type': 'multipart/form-data' }, formWith(ada.csrf))).status, 415)
  t.equal((await issue({ 'content-type': '' }, formWith(ada.csrf))).status, 415)
  const keys = async () => (await logIn(backend, ADMIN)).get('/settings/api-keys')
  t.strictSame((await keys()).json['data'], [])
  const sameOrigin = { origin: 'https://receivables.test', 'sec-fetch-site': 'same-origin' }
  t.equal((await issue(sameOrigin, formWith(ada.csrf))).status, 201)
  t.equal(
    (await issue({ ...sameOrigin, origin: 'null' }, formWith(ada.csrf))).status,
    201,
    'browsers send this origin because of our no-referrer policy',
  )
  await ada.send('POST', '/settings/logout')
  t.equal((await issue({}, formWith(ada.csrf))).status, 401, 'after the logout')
})

t.test(
  'a login by form needs the CSRF token of its page; a login by JSON needs application/json',
  async (t) => {
    const { backend } = await startSettings(t)
    const page = await backend.request('GET', '/settings/login', {
      headers: { accept: 'text/html' },
    })
    const cookie = cookieOf(page, 'login')
    const csrf = /name="csrf_token" value="([\w-]+)"/.exec(page.text)?.[1] ?? ''
    const submit = (headers: Record<string, string>, more = '') =>
      backend.request('POST', '/settings/login', {
        headers: { ...FORM, ...headers },
        body: `${new URLSearchParams(CREDENTIALS)}${more}`,
      })
    t.equal((await submit({ cookie })).status, 403, 'no CSRF token')
    t.equal((await submit({}, `&csrf_token=${csrf}`)).status, 403, 'no cookie')
    t.equal(
      (await submit({ cookie: `__Host-login=${'A'.repeat(43)}` }, `&csrf_token=${csrf}`)).status,
      403,
    )
    t.equal(
      (await submit({ cookie, origin: 'https://evil.example' }, `&csrf_token=${csrf}`)).status,
      403,
    )
    const entered = await submit({ cookie }, `&csrf_token=${csrf}`)
    matches(t, [entered.status, entered.headers.get('location')], [303, '/settings'])

    const send = (type: string, more: Record<string, string> = {}) =>
      backend.request('POST', '/settings/login', {
        headers: { ...JSON_ONLY, 'content-type': type, ...more },
        body: JSON.stringify(CREDENTIALS),
      })
    t.equal((await send('application/json; charset=utf-8')).status, 200)
    for (const type of [
      'text/plain',
      'application/jsonp',
      'application/json; x=1',
      'text/json',
      '',
    ]) {
      t.equal((await send(type)).status, 415, type)
    }
    t.equal((await send('application/json', { origin: 'https://evil.example' })).status, 403)
    t.equal((await send('application/json', { origin: 'null' })).status, 403)
    t.equal((await send('application/json', { origin: 'https://receivables.test' })).status, 200)
  },
)

/** Starts Settings. A function given to `setMeanwhile` runs once, after the next right password was verified. */
async function startWithSlowHashes(t: Test) {
  // The hashes of the users have another cost, so that a login replaces them.
  const real = createPasswords({ memoryKib: 128, passes: 1 })
  let meanwhile = async () => {}
  const runMeanwhile = async () => {
    const run = meanwhile
    meanwhile = async () => {}
    await run()
  }
  const passwords: Passwords = {
    ...real,
    async verify(stored, password) {
      const isRight = await real.verify(stored, password)
      if (isRight) await runMeanwhile()
      return isRight
    },
  }
  const settings = await startSettings(t, { passwords })
  const { backend, admin } = settings
  /** Does what a mailed link does: sets another password, and ends all sessions. */
  const resetPassword = async () => {
    const hash = await real.hash(NEW_PASSWORD)
    await backend.database.transaction(async (tx) => {
      await setPasswordHash(tx, admin.id, hash, backend.now)
      await endSessionsOf(tx, admin.id)
    })
  }
  return { ...settings, resetPassword, setMeanwhile: (run: typeof meanwhile) => (meanwhile = run) }
}

const NEW_PASSWORD = 'a walk along the canal'

t.test('the old password starts no session if it is reset while it is verified', async (t) => {
  // Regression: the login started a session with the old password, and stored the hash of the old password again.
  const { backend, resetPassword, setMeanwhile } = await startWithSlowHashes(t)
  setMeanwhile(resetPassword)
  t.equal((await logIn(backend, ADMIN)).response.status, 401)
  t.equal((await logIn(backend, ADMIN)).response.status, 401)
  t.equal((await logIn(backend, ADMIN, NEW_PASSWORD)).response.status, 200)
})

t.test('a login ends the previous session even if its token is replaced meanwhile', async (t) => {
  // Regression: the session remained valid, although no browser had its token any more.
  const { backend, member, account, setMeanwhile } = await startWithSlowHashes(t)
  const mia = await logIn(backend, MEMBER)
  const actionContext = { actor: OPERATOR, now: backend.now }
  let replaced = ''
  setMeanwhile(async () => {
    await backend.database.transaction((tx) =>
      changeRole(tx, { accountId: account.id, id: member.id }, 'admin', actionContext),
    )
    replaced = cookieOf(await mia.page('/settings/login-details'))
  })
  const again = await backend.request('POST', '/settings/login', {
    headers: { ...JSON_ONLY, cookie: mia.cookie },
    body: { email: ADMIN, password: PASSWORD },
  })
  const statusWith = async (cookie: string) =>
    (await backend.request('GET', '/settings/session', { headers: { ...JSON_ONLY, cookie } }))
      .status
  matches(t, replaced, /session=/)
  t.equal(await statusWith(replaced), 401)
  t.equal(await statusWith(cookieOf(again)), 200)
})

t.test('a session that a reset ends meanwhile does not replace the new password', async (t) => {
  const { backend, resetPassword, setMeanwhile } = await startWithSlowHashes(t)
  const ada = await logIn(backend, ADMIN)
  setMeanwhile(resetPassword)
  const body = { current_password: PASSWORD, new_password: 'chosen by somebody else' }
  matches(t, await ada.send('POST', '/settings/password', body), {
    status: 401,
    json: { code: 'not_logged_in' },
  })
  t.equal((await logIn(backend, ADMIN, NEW_PASSWORD)).response.status, 200)
})

t.test(
  'a role or login that is lost while the password is verified allows nothing more',
  async (t) => {
    // Regression: a person who was deactivated or made a Member, or whose sessions were ended, while they confirmed
    // their password still issued a key, which remained valid.
    const { backend, account, createUser, setMeanwhile } = await startWithSlowHashes(t)
    const { database } = backend
    const keyForm = { name: 'ERP', scopes: 'debtors:read', password: PASSWORD }
    const actionContext = { actor: OPERATOR, now: backend.now }
    const target = (id: string) => ({ accountId: account.id, id })
    const deactivate = (tx: Transaction, id: string) =>
      setUserStatus(tx, target(id), 'deactivated', actionContext)
    const makeMember = (tx: Transaction, id: string) =>
      changeRole(tx, target(id), 'member', actionContext)
    const losses = [
      ['ben@acme.example', deactivate, 401],
      ['cleo@acme.example', makeMember, 403],
      ['dan@acme.example', endSessionsOf, 401],
    ] as const
    for (const [email, lose, status] of losses) {
      const { id } = await createUser(account.id, email, 'admin')
      const session = await logIn(backend, email)
      const loggedInAt = backend.now
      backend.now = new Date(loggedInAt.getTime() + 16 * MINUTE_MS)
      setMeanwhile(() =>
        database.transaction(async (tx) => {
          await lose(tx, id)
        }),
      )
      const response = await session.submit('/settings/api-keys', keyForm)
      t.equal(response.status, status, email)
      t.notOk(response.text.includes('rcv_'), email)
      if (status === 403) {
        const headers = { ...JSON_ONLY, cookie: cookieOf(response) }
        matches(t, await backend.request('GET', '/settings/session', { headers }), {
          status: 200,
          json: { user: { role: 'member' } },
        })
      }
      backend.now = loggedInAt
    }
    const ada = await logIn(backend, ADMIN)
    t.strictSame((await ada.get('/settings/api-keys')).json['data'], [])
  },
)

t.test(
  'two requests that replace the token at the same time do not log the browser out',
  async (t) => {
    // Regression: each response set a cookie with a token of its own, and only one of the tokens was valid. After a
    // change of the role, a browser that loaded two pages at the same time was logged out.
    const { backend, member } = await startSettings(t)
    const [ada, mia] = [await logIn(backend, ADMIN), await logIn(backend, MEMBER)]
    const statusWith = async (cookie: string) =>
      (await backend.request('GET', '/settings/session', { headers: { ...JSON_ONLY, cookie } }))
        .status
    const role = `/settings/people/${member.id}/role`
    t.equal((await ada.send('POST', role, { role: 'admin' })).status, 200)
    const paths = ['/settings/customers', '/settings/invoices', '/settings/payments']
    const pages = await Promise.all(paths.map((path) => mia.page(path)))
    const confirmations = await Promise.all(
      [1, 2].map(() => ada.send('POST', '/settings/confirm', { password: PASSWORD })),
    )
    for (const responses of [pages, confirmations]) {
      const cookies = responses
        .map((response) => cookieOf(response))
        .filter((cookie) => cookie !== '')
      t.equal(cookies.length, 1)
      t.equal(await statusWith(cookies[0] ?? ''), 200)
    }
  },
)

t.test('an error page keeps a browser logged in whose token it has replaced', async (t) => {
  // Regression: the response had no cookie with the new token. After a change of the role, a person was logged out by a
  // page that does not exist, and after a confirmation by an action that was rejected.
  const { backend, member } = await startSettings(t)
  const [ada, mia] = [await logIn(backend, ADMIN), await logIn(backend, MEMBER)]
  const role = `/settings/people/${member.id}/role`
  t.equal((await ada.send('POST', role, { role: 'admin' })).status, 200)
  const missing = await mia.page('/settings/customers/deb_none')
  t.equal(missing.status, 404)
  const headers = { ...JSON_ONLY, cookie: cookieOf(missing) }
  t.equal((await backend.request('GET', '/settings/session', { headers })).status, 200)
})
