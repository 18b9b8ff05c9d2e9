// Two-factor authentication with an authenticator app and recovery codes.
import jsqr from 'jsqr'
import t, { type Test } from 'tap'
import { completeLogin } from '../../../backend/sessions/login.ts'
import { endSessionsOf } from '../../../backend/sessions/sessions.ts'
import { matchTotp, totpCode, totpStep } from '../../../backend/users/totp.ts'
import { createSecretBox } from '../../../backend/webhooks/secret-box.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
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

const STEP_MS = 30_000
const MINUTE_MS = 60_000

t.test('codes match the test vectors of RFC 6238, and each code is accepted once', async (t) => {
  const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'
  const vectors: [seconds: number, code: string][] = [
    [59, '287082'],
    [1_111_111_109, '081804'],
    [1_234_567_890, '005924'],
    [20_000_000_000, '353130'],
  ]
  for (const [seconds, code] of vectors) {
    const now = new Date(seconds * 1000)
    const step = totpStep(now)
    t.equal(totpCode(secret, step), code)
    t.equal(matchTotp(secret, code, { now, lastStep: null }), step)
    t.equal(matchTotp(secret, code, { now, lastStep: step - 1 }), step)
    t.equal(
      matchTotp(secret, code, { now, lastStep: step }),
      undefined,
      'a code is not accepted twice',
    )
    for (const steps of step > 1 ? [-1, 1] : [1]) {
      const clock = new Date(now.getTime() + steps * STEP_MS)
      t.equal(
        matchTotp(secret, code, { now: clock, lastStep: null }),
        step,
        'the clock may differ by one step',
      )
    }
    const late = new Date(now.getTime() + 2 * STEP_MS)
    t.equal(matchTotp(secret, code, { now: late, lastStep: null }), undefined)
  }
})

// Regression: only spaces were ignored, so these texts counted as wrong codes.
t.test('a code may be typed with separators and in the digits of another script', (t) => {
  const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'
  const now = new Date(1_111_111_109_000)
  const match = (code: string) => matchTotp(secret, code, { now, lastStep: null })
  const separated = '081 804|081-804|081–804|081.804| 081\u00a0804\n|0\u200b81804|081\u2060804'
  const otherDigits = '０８１８０４|０８１－８０４|٠٨١٨٠٤|۰۸۱۸۰۴|०८१८०४|๐๘๑๘๐๔|𝟘𝟠𝟙𝟠𝟘𝟜'
  for (const text of `${separated}|${otherDigits}`.split('|')) {
    t.equal(match(text), totpStep(now), text)
  }
  for (const text of '|-|81804|0081804|081804x|O81804|٠٨١٨٠٥|0818|08180½'.split('|')) {
    t.equal(match(text), undefined, text)
  }
  t.end()
})

t.test('the QR code of the setup contains the link for the app', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const { text } = await ada.submit('/settings/two-factor/setup', {})
  const [, link = ''] = /href="(otpauth:[^"]+)"/.exec(text) ?? []
  t.equal(readQrCode(text), link.replaceAll('&amp;', '&'))
})

t.test('a setup that needs the password again requests another code', async (t) => {
  // Regression: the code is not kept while the password is entered, and the page then said that it was wrong.
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  await ada.submit('/settings/two-factor/setup', {})
  backend.now = new Date(backend.now.getTime() + 16 * MINUTE_MS)
  const enable = '/settings/two-factor/enable'
  t.equal((await ada.submit(enable, { code: '123456' })).status, 403)
  matches(t, await ada.submit(enable, { password: PASSWORD }), {
    status: 422,
    text: /Enter the code that the app shows now\./,
  })
})

/** Decodes the QR code in the page as a scanner does. */
function readQrCode(page: string): string | undefined {
  const size = Number(/<svg class="qr" viewBox="0 0 (\d+)/.exec(page)?.[1])
  const scale = 4
  const side = size * scale
  const pixels = new Uint8ClampedArray(side * side * 4).fill(255)
  for (const [, x, y] of page.matchAll(/M(\d+) (\d+)h1v1h-1z/g)) {
    for (let at = 0; at < scale * scale; at++) {
      const row = Number(y) * scale + Math.floor(at / scale)
      const column = Number(x) * scale + (at % scale)
      pixels.fill(0, (row * side + column) * 4, (row * side + column) * 4 + 3)
    }
  }
  return jsqr.default(pixels, side, side)?.data
}

/** Starts with an Admin who has set up an authenticator app. Resolves with its codes and the recovery codes. */
async function startWithFactor(t: Test) {
  const settings = await startSettings(t)
  const { backend } = settings
  const ada = await logIn(backend, ADMIN)
  const setup = await ada.send('POST', '/settings/two-factor/setup')
  const secret = String(setup.json['secret'])
  const codeOf = (steps = 0) => totpCode(secret, totpStep(backend.now) + steps)
  const wrong = await ada.send('POST', '/settings/two-factor/enable', { code: '000000' })
  matches(t, wrong, { status: 422, json: { errors: [{ pointer: '/code' }] } })
  const enabled = await ada.send('POST', '/settings/two-factor/enable', { code: codeOf() })
  t.equal(enabled.status, 200)
  const recovery = enabled.json['recovery_codes'] as string[]
  const advanceClock = (ms: number) => {
    backend.now = new Date(backend.now.getTime() + ms)
  }
  const enterCode = (cookie: string, code: string) =>
    backend.request('POST', '/settings/login/code', {
      headers: { ...JSON_ONLY, cookie },
      body: { code },
    })
  const enterPassword = async (cookie?: string) => {
    const body = { email: ADMIN, password: PASSWORD }
    const headers = { ...JSON_ONLY, ...(cookie === undefined ? {} : { cookie }) }
    return backend.request('POST', '/settings/login', { headers, body })
  }
  const session = (cookie: string) =>
    backend.request('GET', '/settings/session', { headers: { ...JSON_ONLY, cookie } })
  return {
    ...settings,
    ada,
    secret,
    recovery,
    codeOf,
    advanceClock,
    enterPassword,
    enterCode,
    session,
  }
}

t.test('a login needs the password and a code, and the code works once', async (t) => {
  const { codeOf, advanceClock, enterPassword, enterCode, session, backend } =
    await startWithFactor(t)
  advanceClock(STEP_MS)
  const begun = await enterPassword()
  t.strictSame([begun.status, begun.json], [202, { second_factor_required: true }])
  const pending = cookieOf(begun)
  t.equal((await session(pending)).status, 401, 'the password alone gives no access')
  const code = codeOf()
  const complete = await enterCode(pending, code)
  t.equal(complete.status, 200)
  const cookie = cookieOf(complete)
  t.not(cookie, pending, 'the session has a new token')
  t.equal((await session(cookie)).status, 200)
  t.equal((await enterCode(pending, codeOf(1))).status, 401, 'the pending session has ended')
  const replay = await enterCode(cookieOf(await enterPassword()), code)
  t.strictSame([replay.status, replay.json['code']], [401, 'login_failed'])
  const both = await Promise.all(
    [cookieOf(await enterPassword()), cookieOf(await enterPassword())].map((each) =>
      enterCode(each, codeOf(1)),
    ),
  )
  t.strictSame(
    both.map(({ status }) => status).sort(),
    [200, 401],
    'of two concurrent logins with the same code, one is accepted',
  )
  const page = await backend.request('GET', '/settings/login/code', {
    headers: { accept: 'text/html', cookie: cookieOf(await enterPassword()) },
  })
  t.equal(page.status, 200)
  const withoutSession = await backend.request('GET', '/settings/login/code', {
    headers: { accept: 'text/html' },
  })
  t.equal(withoutSession.headers.get('location'), '/settings/login')
  const forged = await backend.request('POST', '/settings/login/code', {
    headers: FORM,
    body: 'code=1',
  })
  t.ok([400, 403].includes(forged.status), 'a form needs its CSRF token')
})

t.test('a login ends the pending session that the browser already has', async (t) => {
  // Regression: only a complete session ended, so the replaced cookie could still complete its login.
  const { backend, ada, codeOf, advanceClock, enterPassword, enterCode, session } =
    await startWithFactor(t)
  advanceClock(STEP_MS)
  const invited = { email: 'eve@acme.example', role: 'member' }
  const { json } = await ada.send('POST', '/settings/people', invited)
  const first = cookieOf(await enterPassword())
  const second = cookieOf(await enterPassword(first))
  t.equal((await enterCode(first, codeOf())).status, 401)
  const third = cookieOf(
    await backend.request('POST', '/settings/login', {
      headers: { ...JSON_ONLY, cookie: second },
      body: { email: MEMBER, password: PASSWORD },
    }),
  )
  t.equal((await enterCode(second, codeOf())).status, 401, 'another user has logged in')
  t.equal((await session(third)).status, 200)
  const fourth = cookieOf(await enterPassword(third))
  t.equal((await session(third)).status, 401, 'the session of the other user has ended')
  const accepted = await backend.request('POST', '/settings/invitation', {
    headers: { ...JSON_ONLY, cookie: fourth },
    body: { code: String(json['link']).split('#')[1], password: 'a walk along the canal' },
  })
  t.equal(accepted.status, 201)
  t.equal((await enterCode(fourth, codeOf())).status, 401, 'an invited user has logged in')
  const fifth = cookieOf(await enterPassword(cookieOf(accepted)))
  t.equal((await session(cookieOf(accepted))).status, 401)
  t.equal((await enterCode(fifth, codeOf())).status, 200)
})

t.test('the code must follow the password within ten minutes', async (t) => {
  const { codeOf, advanceClock, enterPassword, enterCode } = await startWithFactor(t)
  const pending = cookieOf(await enterPassword())
  advanceClock(10 * MINUTE_MS)
  t.equal((await enterCode(pending, codeOf())).status, 401)
})

t.test(
  'guesses of codes are limited, even if the password is entered before each guess',
  async (t) => {
    const { codeOf, advanceClock, enterPassword, enterCode } = await startWithFactor(t)
    advanceClock(STEP_MS)
    const statuses: number[] = []
    for (let guess = 0; guess < 6; guess++) {
      statuses.push((await enterCode(cookieOf(await enterPassword()), '000000')).status)
    }
    t.strictSame(statuses, [401, 401, 401, 401, 401, 429])
    t.equal(
      (await enterCode(cookieOf(await enterPassword()), codeOf())).status,
      429,
      'even the right code is rejected',
    )
  },
)

t.test('after the app is lost, each recovery code can be used once', async (t) => {
  const { backend, recovery, advanceClock, enterPassword, enterCode } = await startWithFactor(t)
  t.equal(new Set(recovery).size, 10)
  const [first = '', second = ''] = recovery
  advanceClock(STEP_MS)
  t.equal((await enterCode(cookieOf(await enterPassword()), first.toUpperCase())).status, 200)
  t.equal((await enterCode(cookieOf(await enterPassword()), first)).status, 401)
  t.equal(
    (await enterCode(cookieOf(await enterPassword()), second.replaceAll('-', ' '))).status,
    200,
  )
  for (const table of ['users', 'recovery_codes', 'audit_log', 'sessions'] as const) {
    const rows = await backend.database.read.selectFrom(table).selectAll().execute()
    const text = JSON.stringify(rows)
    for (const code of recovery) {
      t.notOk(text.includes(code) || text.includes(code.replaceAll('-', '')), table)
    }
  }
})

t.test('new recovery codes replace the former ones', async (t) => {
  const { ada, codeOf, recovery, enterPassword, enterCode } = await startWithFactor(t)
  const replaced = await ada.send('POST', '/settings/two-factor/recovery-codes')
  t.equal(replaced.status, 200)
  const codes = replaced.json['recovery_codes'] as string[]
  t.equal(new Set([...codes, ...recovery]).size, 20)
  const statusOf = async (code = '') =>
    (await enterCode(cookieOf(await enterPassword()), code)).status
  t.equal(await statusOf(recovery[0]), 401)
  t.equal(await statusOf(codes[0]), 200)
  const enableAgain = { status: 409, json: { code: 'second_factor_conflict' } }
  const enable = () => ada.send('POST', '/settings/two-factor/enable', { code: codeOf() })
  matches(t, await enable(), enableAgain)
  t.equal((await ada.send('POST', '/settings/two-factor/disable')).status, 204)
  matches(t, await enable(), enableAgain)
  t.equal((await ada.send('POST', '/settings/two-factor/recovery-codes')).status, 409)
  t.equal((await enterPassword()).status, 200)
  t.equal(await statusOf(codes[1]), 401, 'without a second factor, there is no code to enter')
})

t.test('a recovery code is accepted as other programs write it', async (t) => {
  // Regression: a code was wrong if a text processor, in which it was stored, had replaced its hyphens.
  const { recovery, enterPassword, enterCode } = await startWithFactor(t)
  for (const [at, hyphen] of ['', ' ', '\u2010', '\u2011', '\u2013', '\u2212'].entries()) {
    const code = recovery[at]?.replaceAll('-', hyphen).toUpperCase() ?? ''
    t.equal((await enterCode(cookieOf(await enterPassword()), code)).status, 200, code)
  }
  // Regression: a code in full width, as some keyboards type it, was wrong.
  const wide = recovery[6]?.replace(/\w/g, (digit) =>
    String.fromCodePoint(digit.charCodeAt(0) + 0xfee0),
  )
  t.equal((await enterCode(cookieOf(await enterPassword()), wide ?? '')).status, 200)
})

// Regression: the response to a recovery code was a 500.
t.test(
  'without the key that encrypted the secret of the app, recovery codes still work',
  async (t) => {
    const { backend, recovery, enterPassword, enterCode } = await startWithFactor(t)
    const { database } = backend
    const { id, account_id } = await database.read
      .selectFrom('users')
      .select(['id', 'account_id'])
      .where('email', '=', ADMIN)
      .executeTakeFirstOrThrow()
    const owner = { accountId: account_id, recordId: id }
    const totp_secret = createSecretBox([Buffer.alloc(32, 9)]).seal('GEZDGNBVGY3TQOJQ', owner)
    await database.transaction((tx) =>
      tx.updateTable('users').set({ totp_secret }).where('id', '=', id).execute(),
    )
    t.equal((await enterCode(cookieOf(await enterPassword()), recovery[0] ?? '')).status, 200)
  },
)

t.test('the secret is stored encrypted, and is not shown again', async (t) => {
  const { backend, ada, secret } = await startWithFactor(t)
  const users = await backend.database.read.selectFrom('users').selectAll().execute()
  t.notOk(JSON.stringify(users).includes(secret))
  const again = await ada.send('POST', '/settings/two-factor/setup')
  t.equal(again.json['code'], 'second_factor_conflict')
  const page = await ada.page('/settings/two-factor')
  t.notOk(page.text.includes(secret))
})

t.test(
  'an account can require a second factor of its Admins, who can then only set it up',
  async (t) => {
    const { backend, ada, account, createUser } = await startWithFactor(t)
    await createUser(account.id, 'bob@acme.example', 'admin')
    const bob = await logIn(backend, 'bob@acme.example')
    const mia = await logIn(backend, MEMBER)
    const policy = '/settings/two-factor/policy'
    t.equal((await mia.send('POST', policy, { required: 'yes' })).status, 403)
    const early = await bob.send('POST', policy, { required: 'yes' })
    matches(t, early, { status: 422, json: { errors: [{ pointer: '/required' }] } })
    t.equal((await ada.send('POST', policy, { required: 'yes' })).status, 204)
    for (const path of ['/settings/api-keys', '/settings/people', '/settings/customers']) {
      const { status, json } = await bob.get(path)
      t.strictSame([status, json['code']], [403, 'second_factor_required'], path)
      t.equal((await bob.page(path)).headers.get('location'), '/settings/two-factor')
    }
    const issue = { name: 'ERP', scopes: ['debtors:read'] }
    t.equal((await bob.send('POST', '/settings/api-keys', issue)).status, 403)
    t.equal((await mia.get('/settings/api-keys')).status, 200, 'this does not apply to Members')
    const setup = await bob.send('POST', '/settings/two-factor/setup')
    const code = totpCode(String(setup.json['secret']), totpStep(backend.now))
    t.equal((await bob.send('POST', '/settings/two-factor/enable', { code })).status, 200)
    t.equal((await bob.get('/settings/api-keys')).status, 200)
  },
)

t.test('an Admin who must set up a second factor can end their other sessions', async (t) => {
  // Regression: the page of the login showed the sessions with buttons to end them, but each button caused a 403.
  const { backend, ada, account, createUser } = await startWithFactor(t)
  await createUser(account.id, 'bob@acme.example', 'admin')
  const [bob, other] = [
    await logIn(backend, 'bob@acme.example'),
    await logIn(backend, 'bob@acme.example'),
  ]
  const policy = '/settings/two-factor/policy'
  t.equal((await ada.send('POST', policy, { required: 'yes' })).status, 204)
  t.equal((await bob.get('/settings/sessions')).status, 200)
  const { text } = await bob.page('/settings/login-details')
  const [, action = ''] = /action="(\/settings\/sessions\/[\w-]+\/end)"/.exec(text) ?? []
  t.equal((await bob.submit(action, {})).headers.get('location'), '/settings/login-details')
  t.equal((await other.get('/settings/session')).status, 401)
})

t.test('only "no" stops requiring a second factor', async (t) => {
  // Regression: every text except "yes" stopped it, also "true", and so did a request without the field.
  const { ada } = await startWithFactor(t)
  const policy = '/settings/two-factor/policy'
  t.equal((await ada.send('POST', policy, { required: 'yes' })).status, 204)
  for (const body of [{}, { required: '' }, { required: 'YES' }, { required: 'true' }]) {
    const { status, json } = await ada.send('POST', policy, body)
    matches(t, { status, json }, { status: 422, json: { errors: [{ pointer: '/required' }] } })
    t.equal((await ada.get('/settings/two-factor')).json['required'], true)
  }
  t.equal((await ada.send('POST', policy, { required: 'no' })).status, 204)
  t.equal((await ada.get('/settings/two-factor')).json['required'], false)
})

t.test(
  'turning the app on ends other sessions; turning it off needs the password; both are audited',
  async (t) => {
    const { backend, admin, ada, advanceClock } = await startWithFactor(t)
    advanceClock(16 * MINUTE_MS)
    for (const action of ['disable', 'recovery-codes', 'policy']) {
      const { json } = await ada.send('POST', `/settings/two-factor/${action}`, {})
      t.equal(json['code'], 'confirmation_required', action)
    }
    advanceClock(-16 * MINUTE_MS)
    const mia = await logIn(backend, MEMBER)
    const other = await logIn(backend, MEMBER)
    const setup = await mia.send('POST', '/settings/two-factor/setup')
    const code = totpCode(String(setup.json['secret']), totpStep(backend.now))
    t.equal((await mia.send('POST', '/settings/two-factor/enable', { code })).status, 200)
    t.equal((await other.get('/settings/session')).status, 401)
    t.equal((await mia.get('/settings/session')).status, 200)
    t.equal((await ada.send('POST', '/settings/two-factor/disable')).status, 204)
    t.equal((await logIn(backend, ADMIN)).response.status, 200)
    const entries = await backend.database.read
      .selectFrom('audit_log')
      .select('action')
      .where('subject_id', '=', admin.id)
      .where('action', 'like', 'user.second%')
      .orderBy('id')
      .execute()
    t.strictSame(
      entries.map(({ action }) => action),
      ['user.second_factor_enabled', 'user.second_factor_disabled'],
    )
  },
)

t.test('a code completes no login whose pending session has just been ended', async (t) => {
  // Regression: a login with the old password was completed, although a reset of the password had ended its pending
  // session.
  const { backend, admin, codeOf, advanceClock, enterPassword } = await startWithFactor(t)
  advanceClock(MINUTE_MS)
  const [, token = ''] = cookieOf(await enterPassword()).split('=')
  const step = { token, code: codeOf(), address: undefined, userAgent: undefined }
  const { database, now } = backend
  // The first transaction counts the guess, and begins after the pending session was read.
  const interrupted = Object.create(database, {
    transaction: {
      async value(...args: Parameters<typeof database.transaction>) {
        const result = await database.transaction(...args)
        await database.transaction((tx) => endSessionsOf(tx, admin.id))
        return result
      },
    },
  })
  const box = createSecretBox([Buffer.alloc(32, 8)])
  const login = completeLogin(interrupted, { ...step, browserToken: undefined }, box, now)
  await rejectsWith(t, login, { code: 'login_failed' })
})

t.test('an e-mail address that names a second factor does not block it', async (t) => {
  // Regression: the guesses were counted like guesses at the code of the user, so anyone who knew the id could block
  // the user.
  const { backend, admin, codeOf, advanceClock, enterPassword, enterCode } =
    await startWithFactor(t)
  advanceClock(MINUTE_MS)
  for (let count = 0; count < 6; count++) await logIn(backend, `second factor ${admin.id}`)
  t.equal((await enterCode(cookieOf(await enterPassword()), codeOf())).status, 200)
})
