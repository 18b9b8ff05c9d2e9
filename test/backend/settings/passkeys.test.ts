// Passkeys: adding, login and removal over HTTP, with a simulated authenticator.
import assert from 'node:assert'
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { beginPasskeyLogin, logInWithPasskey } from '../../../backend/sessions/passkey-login.ts'
import { relyingPartyOf } from '../../../backend/sessions/relying-party.ts'
import { countSessions, endSessionsOf } from '../../../backend/sessions/sessions.ts'
import { totpCode, totpStep } from '../../../backend/users/totp.ts'
import { setUserStatus } from '../../../backend/users/users.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import {
  type Authenticator,
  type CreationOptions,
  createAuthenticator,
  type Forgery,
} from '../../fixtures/service/authenticator.ts'
import {
  BASE_URL,
  type Response,
  startBackend,
  type TestBackend,
} from '../../fixtures/service/backend.ts'
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
const PATH = '/settings/passkeys'

type Session = Awaited<ReturnType<typeof logIn>>

function creationOptions({ json }: Response): CreationOptions {
  const { challenge, user } = json as { challenge: string; user: { id: string } }
  return { challenge, user }
}

const challengeOf = ({ json }: Response) => ({ challenge: String(json['challenge']) })

/** Adds a passkey. `forgery` changes the credential that the authenticator creates. */
async function addPasskeyTo(session: Session, name: string, forgery: Forgery = {}) {
  const device = createAuthenticator(BASE_URL)
  const options = creationOptions(
    await session.send('POST', `${PATH}/challenge`, { name: 'Phone' }),
  )
  const credential = device.create(options, forgery)
  return { device, credential, response: await session.send('POST', PATH, { name, credential }) }
}

/** Simulates a browser in which nobody has logged in. Keeps the cookie of the login form. */
function openBrowser(backend: TestBackend, path = '/settings/login/passkey', cookie = '') {
  let formCookie = cookie
  const post = async (target: string, body: unknown) => {
    const response = await backend.request('POST', target, {
      headers: { ...JSON_ONLY, cookie: formCookie },
      body,
    })
    if (cookieOf(response, 'login') !== '') formCookie = cookieOf(response, 'login')
    return response
  }
  return {
    options: () => post(`${path}/challenge`, {}),
    enter: (credential: string) => post(path, { credential }),
    async use(device: Authenticator, forgery: Forgery = {}) {
      return post(path, { credential: device.use(challengeOf(await this.options()), forgery) })
    },
  }
}

async function start(t: Test) {
  const settings = await startSettings(t)
  const { backend } = settings
  const ada = await logIn(backend, ADMIN)
  const advanceClock = (ms: number) => {
    backend.now = new Date(backend.now.getTime() + ms)
  }
  const enterPassword = (email: string) =>
    backend.request('POST', '/settings/login', {
      headers: JSON_ONLY,
      body: { email, password: PASSWORD },
    })
  const actions = async () => {
    const rows = await backend.database.read
      .selectFrom('audit_log')
      .select('action')
      .where('action', 'like', 'user.%passkey%')
      .orderBy('id')
      .execute()
    return rows.map(({ action }) => action)
  }
  return { ...settings, ada, advanceClock, enterPassword, actions }
}

t.test('a passkey is added, renamed, used and removed', async (t) => {
  const { backend, ada, advanceClock, actions, admin } = await start(t)
  const elsewhere = await logIn(backend, ADMIN)
  const { device, response } = await addPasskeyTo(ada, ' Work laptop ')
  matches(t, response, {
    status: 201,
    json: { object: 'passkey', name: 'Work laptop', last_used_at: null },
  })
  t.equal((response.json['recovery_codes'] as string[]).length, 10)
  t.equal((await elsewhere.get('/settings/session')).status, 401, 'other sessions end')
  const id = String(response.json['id'])
  matches(t, await ada.get('/settings/two-factor'), {
    status: 200,
    json: { enabled: true, app: false, passkeys: [{ id, name: 'Work laptop' }] },
  })
  advanceClock(MINUTE_MS)
  const login = await openBrowser(backend).use(device)
  matches(t, login, { status: 200, json: { user: { id: admin.id, role: 'admin' } } })
  const session = await backend.request('GET', '/settings/session', {
    headers: { ...JSON_ONLY, cookie: cookieOf(login) },
  })
  t.equal(session.status, 200, 'the passkey counts as both factors')
  const [used] = (await ada.get(PATH)).json['data'] as { last_used_at: string }[]
  t.equal(used?.last_used_at, backend.now.toISOString())

  matches(t, await ada.send('POST', `${PATH}/${id}/rename`, { name: '' }), {
    status: 422,
    json: { errors: [{ pointer: '/name' }] },
  })
  const renamed = await ada.send('POST', `${PATH}/${id}/rename`, { name: 'Old laptop' })
  matches(t, renamed, { status: 200, json: { name: 'Old laptop' } })
  const mia = await logIn(backend, MEMBER)
  t.equal((await mia.send('POST', `${PATH}/${id}/rename`, { name: 'Mine' })).status, 404)
  t.equal((await mia.send('POST', `${PATH}/${id}/remove`)).status, 404)
  t.equal((await ada.send('POST', `${PATH}/${id}/remove`)).status, 204)
  t.equal((await openBrowser(backend).use(device)).status, 401)
  t.equal((await logIn(backend, ADMIN)).response.status, 200, 'the password alone suffices again')
  t.strictSame(await backend.database.read.selectFrom('recovery_codes').selectAll().execute(), [])
  t.strictSame(await actions(), [
    'user.passkey_added',
    'user.logged_in_with_passkey',
    'user.passkey_renamed',
    'user.passkey_removed',
    'user.passkey_failed',
  ])
})

t.test('a passkey can be the second factor after a password', async (t) => {
  const { backend, ada, enterPassword } = await start(t)
  const { device, response } = await addPasskeyTo(ada, 'Phone')
  const [recovery = ''] = response.json['recovery_codes'] as string[]
  const { device: second } = await addPasskeyTo(ada, 'Key')
  const step = (cookie: string) => openBrowser(backend, '/settings/login/code/passkey', cookie)
  const begun = await enterPassword(ADMIN)
  t.strictSame([begun.status, begun.json], [202, { second_factor_required: true }])
  const options = await step(cookieOf(begun)).options()
  matches(t, options, { status: 200, json: { userVerification: 'required' } })
  t.equal((options.json['allowCredentials'] as unknown[]).length, 2)
  const used = await step(cookieOf(begun)).use(second)
  t.equal(used.status, 200)
  t.equal((await step(cookieOf(begun)).options()).status, 401, 'the pending session has ended')
  t.equal((await step(cookieOf(await enterPassword(ADMIN))).use(device)).status, 200)
  const unnamed = await step(cookieOf(await enterPassword(ADMIN))).use(device, {
    userHandle: undefined,
  })
  t.equal(unnamed.status, 200, 'after the password, the browser may omit the user handle')

  const code = await backend.request('POST', '/settings/login/code', {
    headers: { ...JSON_ONLY, cookie: cookieOf(await enterPassword(ADMIN)) },
    body: { code: recovery },
  })
  t.equal(code.status, 200, 'a recovery code replaces the passkey')

  const mia = await logIn(backend, MEMBER)
  const { device: other } = await addPasskeyTo(mia, 'Phone of Mia')
  const foreign = await step(cookieOf(await enterPassword(ADMIN))).use(other)
  t.strictSame([foreign.status, foreign.json['code']], [401, 'login_failed'])
  const page = await backend.request('GET', '/settings/login/code', {
    headers: { accept: 'text/html', cookie: cookieOf(await enterPassword(ADMIN)) },
  })
  matches(t, page.text, /data-passkey="get".* hidden>/)
  t.equal((await step('').options()).status, 401)
})

t.test(
  'a challenge is valid once, for five minutes, and only for its browser and its purpose',
  async (t) => {
    const { backend, ada, advanceClock, enterPassword } = await start(t)
    const { device } = await addPasskeyTo(ada, 'Phone')
    const browser = openBrowser(backend)
    const options = challengeOf(await browser.options())
    const credential = device.use(options)
    t.equal((await browser.enter(credential)).status, 200)
    t.equal((await browser.enter(credential)).status, 401, 'a replay')
    t.equal(
      (await browser.enter(device.use(options))).status,
      401,
      'a new signature of a used challenge',
    )

    const planted = device.use(challengeOf(await openBrowser(backend).options()))
    t.equal((await browser.enter(planted)).status, 401, 'the challenge of another browser')
    t.equal(
      (await browser.enter(device.use({ challenge: 'AAAA' }))).status,
      401,
      'a made-up challenge',
    )

    const late = device.use(challengeOf(await browser.options()))
    advanceClock(5 * MINUTE_MS)
    t.equal((await browser.enter(late)).status, 401, 'an expired challenge')

    const pending = cookieOf(await enterPassword(ADMIN))
    const step = openBrowser(backend, '/settings/login/code/passkey', pending)
    const forSecondFactor = device.use(challengeOf(await step.options()))
    t.equal(
      (await openBrowser(backend, undefined, pending).enter(forSecondFactor)).status,
      401,
      'a challenge for the second factor',
    )
    const adding = challengeOf(await ada.send('POST', `${PATH}/challenge`, { name: 'Phone' }))
    t.equal(
      (await browser.enter(device.use(adding))).status,
      401,
      'the challenge of another purpose',
    )

    const challenge = challengeOf(await browser.options())
    const credentials = [device.use(challenge), device.use(challenge)]
    const statuses = (await Promise.all(credentials.map((each) => browser.enter(each)))).map(
      ({ status }) => status,
    )
    t.strictSame(statuses.sort(), [200, 401], 'only one of two concurrent requests is accepted')
  },
)

t.test(
  'an invalid passkey login is rejected with the same response for every reason',
  async (t) => {
    const { backend, ada } = await start(t)
    const { device } = await addPasskeyTo(ada, 'Phone')
    const mia = await logIn(backend, MEMBER)
    const handleOfMia = Buffer.from(String((mia.response.json['user'] as { id: string }).id))
    const cases: Readonly<Record<string, Forgery>> = {
      'another origin': { origin: 'https://receivables.test.evil.example' },
      'plain http': { origin: BASE_URL.replace('https', 'http') },
      'another relying party': { rpId: 'evil.example' },
      'no user verification': { userVerified: false },
      'the user of another login': { userHandle: handleOfMia.toString('base64url') },
      'no user': { userHandle: undefined },
      'a creation': { type: 'webauthn.create' },
    }
    const bodies = new Set<string>()
    for (const [name, forgery] of Object.entries(cases)) {
      const { status, json } = await openBrowser(backend).use(device, forgery)
      t.equal(status, 401, name)
      bodies.add(JSON.stringify([json['code'], json['detail']]))
    }
    const unknown = await openBrowser(backend).use(createAuthenticator(BASE_URL))
    t.equal(unknown.status, 401)
    bodies.add(JSON.stringify([unknown.json['code'], unknown.json['detail']]))
    t.equal((await openBrowser(backend).use(device)).status, 200)
    const copy = await openBrowser(backend).use(device, { isCopy: true })
    bodies.add(JSON.stringify([copy.json['code'], copy.json['detail']]))
    t.equal(copy.status, 401, 'the count of a copied authenticator does not rise')
    t.equal(bodies.size, 1, 'all responses are the same')
    const browser = openBrowser(backend)
    for (const credential of ['', '{}', 'null', '[1]', JSON.stringify({ id: 'a', rawId: 'a' })]) {
      matches(t, await browser.enter(credential), {
        status: 422,
        json: { code: 'validation_failed' },
      })
    }
  },
)

t.test(
  'a passkey is added only if it is verified for this service, and after a recent password',
  async (t) => {
    const { backend, ada, advanceClock } = await start(t)
    for (const forgery of [
      { origin: 'https://evil.example' },
      { rpId: 'evil.example' },
      { userVerified: false },
      { type: 'webauthn.get' },
    ]) {
      const { response } = await addPasskeyTo(ada, 'Phone', forgery)
      matches(t, response, { status: 422, json: { errors: [{ pointer: '/credential' }] } })
    }
    const { credential, response, device } = await addPasskeyTo(ada, 'Phone')
    t.equal(response.status, 201)
    t.equal((await ada.send('POST', PATH, { name: 'Again', credential })).status, 422, 'a replay')
    const options = creationOptions(await ada.send('POST', `${PATH}/challenge`, { name: 'Phone' }))
    const again = { name: 'Twice', credential: device.create(options) }
    const duplicate = await ada.send('POST', PATH, again)
    t.strictSame([duplicate.status, duplicate.json['code']], [409, 'second_factor_conflict'])
    const mia = await logIn(backend, MEMBER)
    const deviceOfMia = createAuthenticator(BASE_URL)
    const optionsOfMia = creationOptions(
      await mia.send('POST', `${PATH}/challenge`, { name: 'Phone' }),
    )
    const planted = await ada.send('POST', PATH, {
      name: 'x',
      credential: deviceOfMia.create(optionsOfMia),
    })
    t.equal(planted.status, 422, 'the challenge of another session')
    const { response: unnamed } = await addPasskeyTo(ada, '')
    matches(t, unnamed, { status: 422, json: { errors: [{ pointer: '/name' }] } })
    advanceClock(16 * MINUTE_MS)
    for (const path of [`${PATH}/challenge`, `${PATH}/${String(response.json['id'])}/remove`]) {
      t.equal((await ada.send('POST', path)).json['code'], 'confirmation_required', path)
    }
    const page = await ada.page(`${PATH}/new`)
    t.equal(page.headers.get('location'), '/settings/confirm?next=%2Fsettings%2Fpasskeys%2Fnew')
  },
)

t.test('a form adds a passkey; recovery codes are shown only with the first passkey', async (t) => {
  const { ada } = await start(t)
  const submit = async () => {
    const options = creationOptions(await ada.send('POST', `${PATH}/challenge`, { name: 'Phone' }))
    const credential = createAuthenticator(BASE_URL).create(options)
    return ada.submit(PATH, { name: '<b>Phone</b>', credential })
  }
  const first = await submit()
  t.equal(first.status, 201)
  matches(t, first.text, /Store your recovery codes/)
  const second = await submit()
  t.strictSame([second.status, second.headers.get('location')], [303, '/settings/two-factor'])
  const { text } = await ada.page('/settings/two-factor')
  matches(t, text, /Passkey added.*&lt;b&gt;Phone&lt;\/b&gt;/s)
  const wrong = await ada.submit(PATH, { name: 'Kept', credential: '{}' })
  t.equal(wrong.status, 422)
  matches(t, wrong.text, /value="Kept"/)
})

t.test('a passkey is added although the password ceases to be recent meanwhile', async (t) => {
  // Regression: the passkey that the device had created was lost, and the page showed an error about its JSON.
  const { ada, advanceClock } = await start(t)
  advanceClock(14 * MINUTE_MS)
  const options = creationOptions(await ada.send('POST', `${PATH}/challenge`, { name: 'Phone' }))
  const credential = createAuthenticator(BASE_URL).create(options)
  advanceClock(2 * MINUTE_MS)
  const other = await ada.send('POST', `${PATH}/challenge`, { name: 'Phone' })
  matches(t, other, { status: 403, json: { code: 'confirmation_required' } })
  t.equal((await ada.submit(PATH, { name: 'Phone', credential })).status, 201)
})

t.test('if the account requires a second factor, a passkey suffices without the app', async (t) => {
  const { backend, ada, account, createUser, advanceClock } = await start(t)
  await createUser(account.id, 'bob@acme.example', 'admin')
  const bob = await logIn(backend, 'bob@acme.example')
  await addPasskeyTo(ada, 'Phone')
  const policy = '/settings/two-factor/policy'
  t.equal((await ada.send('POST', policy, { required: 'yes' })).status, 204)
  t.equal((await bob.get('/settings/customers')).json['code'], 'second_factor_required')
  t.equal((await bob.page(`${PATH}/new`)).status, 200)
  t.equal((await addPasskeyTo(bob, 'Key')).response.status, 201)
  t.equal((await bob.get('/settings/customers')).status, 200)

  const setup = await ada.send('POST', '/settings/two-factor/setup')
  const code = totpCode(String(setup.json['secret']), totpStep(backend.now))
  t.equal((await ada.send('POST', '/settings/two-factor/enable', { code })).status, 200)
  advanceClock(MINUTE_MS)
  t.equal((await ada.send('POST', '/settings/two-factor/disable')).status, 204)
  const codes = await backend.database.read.selectFrom('recovery_codes').selectAll().execute()
  t.ok(codes.length > 10, 'the codes remain for the passkey')
  t.equal((await ada.get('/settings/customers')).status, 200)
})

t.test('deactivated people cannot log in with a passkey', async (t) => {
  const { backend, ada, member } = await start(t)
  const mia = await logIn(backend, MEMBER)
  const { device } = await addPasskeyTo(mia, 'Phone')
  t.equal((await ada.send('POST', `/settings/people/${member.id}/deactivate`)).status, 200)
  t.equal((await openBrowser(backend).use(device)).status, 401)
})

t.test('requests for challenges are limited like guesses, unless a login follows', async (t) => {
  const { backend, ada, enterPassword } = await start(t)
  const { device } = await addPasskeyTo(ada, 'Phone')
  const address = { 'x-receivables-client-address': '203.0.113.9' }
  const options = () =>
    backend.request('POST', '/settings/login/passkey/challenge', {
      headers: { ...JSON_ONLY, ...address },
      body: {},
    })
  const statuses: number[] = []
  for (let count = 0; count < 6; count++) statuses.push((await options()).status)
  t.strictSame(statuses, [200, 200, 200, 200, 200, 429])
  const browser = openBrowser(backend)
  for (let count = 0; count < 8; count++) t.equal((await browser.use(device)).status, 200)
  const step = async () =>
    openBrowser(
      backend,
      '/settings/login/code/passkey',
      cookieOf(await enterPassword(ADMIN)),
    ).options()
  const steps: number[] = []
  for (let count = 0; count < 6; count++) steps.push((await step()).status)
  t.strictSame(steps, [200, 200, 200, 200, 200, 429], 'after the password, the limit is per user')
})

t.test('without scripts, the passkey form is hidden; a page says that it needs them', async (t) => {
  const { backend, ada } = await start(t)
  const page = await backend.request('GET', '/settings/login', { headers: { accept: 'text/html' } })
  matches(t, page.text, /<form [^>]*action="\/settings\/login\/passkey"[^>]* hidden>/)
  const forged = await backend.request('POST', '/settings/login/passkey', {
    headers: FORM,
    body: 'credential=1',
  })
  t.equal(forged.status, 403, 'a form needs a CSRF token')
  matches(
    t,
    (await ada.page(`${PATH}/new`)).text,
    /<noscript>.*needs? a browser that runs scripts/s,
  )
})

t.test('a service without a host name offers no passkeys', async (t) => {
  const { backend } = await startSettings(t, { baseUrl: 'https://203.0.113.7' })
  const page = await backend.request('GET', '/settings/login', { headers: { accept: 'text/html' } })
  t.notMatch(page.text, /passkey/)
  const options = await openBrowser(backend).options()
  t.strictSame([options.status, options.json['code']], [409, 'second_factor_conflict'])
  const ada = await logIn(backend, ADMIN)
  matches(t, (await ada.page('/settings/two-factor')).text, /Passkeys need a host name/)
})

t.test(
  'without a host name, people who have a passkey are asked for a recovery code',
  async (t) => {
    // Regression: the page asked for the passkey, but had no button to use it.
    const { backend, ada, enterPassword } = await start(t)
    await addPasskeyTo(ada, 'Phone')
    const { database } = backend
    const nameless = await startBackend(t, { database, baseUrl: 'https://203.0.113.7' })
    const page = await nameless.request('GET', '/settings/login/code', {
      headers: { accept: 'text/html', cookie: cookieOf(await enterPassword(ADMIN)) },
    })
    matches(t, page.text, /<h1>Enter a recovery code<\/h1>/)
    t.notMatch(page.text, /Use your passkey|data-passkey/)
  },
)

t.test('a passkey completes no login whose pending session has just been ended', async (t) => {
  // Regression: a login with the old password was completed, although a reset of the password had ended its pending
  // session.
  const { backend, ada, admin, enterPassword } = await start(t)
  const { device } = await addPasskeyTo(ada, 'Phone')
  const pending = cookieOf(await enterPassword(ADMIN))
  const options = await openBrowser(backend, '/settings/login/code/passkey', pending).options()
  const { database, now } = backend
  // The first transaction consumes the challenge, and begins after the pending session was read.
  const interrupted = Object.create(database, {
    transaction: {
      async value(...args: Parameters<typeof database.transaction>) {
        const result = await database.transaction(...args)
        await database.transaction((tx) => endSessionsOf(tx, admin.id))
        return result
      },
    },
  })
  const party = relyingPartyOf(BASE_URL)
  assert(party)
  const [, token] = pending.split('=')
  const previous = { token, session: undefined }
  const attempt = { previous, formSecret: undefined, address: undefined, userAgent: undefined }
  const response = JSON.parse(device.use(challengeOf(options)))
  const login = logInWithPasskey(
    { database: interrupted, party },
    { ...attempt, browserToken: undefined },
    response,
    now,
  )
  await rejectsWith(t, login, { code: 'login_failed' })
  const events = await database.read.selectFrom('audit_log').select('action').execute()
  t.notOk(events.some(({ action }) => action === 'user.logged_in_with_passkey'))
})

t.test('a passkey starts no session for a person who has just been deactivated', async (t) => {
  // Regression: the session began after the deactivation had ended the other sessions, and gave access again as soon as
  // the person was reactivated.
  const { backend, ada, member } = await start(t)
  const mia = await logIn(backend, MEMBER)
  const { device } = await addPasskeyTo(mia, 'Phone')
  const { database, now } = backend
  const deactivate = () =>
    database.transaction(async (tx) => {
      const target = { accountId: member.account_id, id: member.id }
      await setUserStatus(tx, target, 'deactivated', { actor: OPERATOR, now })
      await endSessionsOf(tx, member.id)
    })
  let transactions = 0
  // The second transaction starts the session. It begins after the user was read.
  const interrupted = Object.create(database, {
    transaction: {
      async value(...args: Parameters<typeof database.transaction>) {
        transactions++
        if (transactions === 2) await deactivate()
        return database.transaction(...args)
      },
    },
  })
  const party = relyingPartyOf(BASE_URL)
  assert(party)
  const browser = { address: undefined, userAgent: undefined, browserToken: undefined }
  const previous = { token: undefined, session: undefined }
  const attempt = { previous, formSecret: 'secret', ...browser }
  const { challenge } = await beginPasskeyLogin({ database, party }, attempt, now)
  const login = logInWithPasskey(
    { database: interrupted, party },
    attempt,
    JSON.parse(device.use({ challenge })),
    now,
  )
  await rejectsWith(t, login, { code: 'login_failed' })
  t.equal((await ada.send('POST', `/settings/people/${member.id}/reactivate`)).status, 200)
  t.equal(await countSessions(database.read, member.id, now), 0)
})
