// The limits of guesses at passwords and codes.
import t from 'tap'
import { CLIENT_ADDRESS_HEADER } from '../../../shared/contract/principal.ts'
import { matches } from '../../fixtures/matches.ts'
import {
  ADMIN,
  JSON_ONLY,
  logIn,
  PASSWORD,
  startSettings,
} from '../../fixtures/service/settings.ts'

const MINUTE_MS = 60_000

t.test(
  'after five wrong passwords, each further one doubles the wait, whether or not the user exists',
  async (t) => {
    const { backend } = await startSettings(t)
    const startMs = backend.now.getTime()
    const guess = (email: string, password = 'wrong wrong wrong') =>
      backend.request('POST', '/settings/login', { headers: JSON_ONLY, body: { email, password } })
    const seen: Record<string, unknown[]> = {}
    for (const email of [ADMIN, 'nobody@acme.example']) {
      backend.now = new Date(startMs)
      const responses: unknown[] = []
      let guesses = 0
      for (let seconds = 0; seconds < 15 * 60; ) {
        backend.now = new Date(startMs + seconds * 1000)
        const response = await guess(email)
        const wait = Number(response.headers.get('retry-after') ?? 0)
        const { request_id: _, ...problem } = response.json
        responses.push([response.status, wait, problem])
        if (response.status === 401) guesses++
        seconds += wait
      }
      t.equal(guesses, 10, 'ten guesses are possible within 15 minutes')
      seen[email] = responses
    }
    t.strictSame(seen['nobody@acme.example'], seen[ADMIN])
    const waits = Object(seen[ADMIN])
      .filter(([status]: [number]) => status === 429)
      .map(([, wait]: [number, number]) => wait)
    t.strictSame(waits.slice(0, 5), [2, 4, 8, 16, 32])
    backend.now = new Date(startMs + 14 * MINUTE_MS)
    t.equal((await guess(ADMIN, PASSWORD)).status, 429, 'the right password must wait too')
    backend.now = new Date(startMs + 15 * MINUTE_MS)
    t.equal((await guess(ADMIN, PASSWORD)).status, 200)
  },
)

t.test('a login does not reset the count of the guesses from its address', async (t) => {
  const { backend } = await startSettings(t)
  const guess = async (email: string, password = 'wrong wrong wrong') => {
    const headers = { ...JSON_ONLY, [CLIENT_ADDRESS_HEADER]: '203.0.113.7' }
    const body = { email, password }
    return (await backend.request('POST', '/settings/login', { headers, body })).status
  }
  for (let person = 1; person <= 4; person++)
    t.equal(await guess(`person${person}@acme.example`), 401)
  t.equal(await guess(ADMIN, PASSWORD), 200)
  t.equal(await guess('person5@acme.example'), 401)
  t.equal(await guess('person6@acme.example'), 429)
})

// Regression: after a login with a clock that was ahead by a day, logins from the same address were rejected for a day.
t.test('guesses that were counted before the clock was set back block no login', async (t) => {
  const { backend } = await startSettings(t)
  const guess = async (password: string) => {
    const headers = { ...JSON_ONLY, [CLIENT_ADDRESS_HEADER]: '203.0.113.7' }
    const body = { email: ADMIN, password }
    return (await backend.request('POST', '/settings/login', { headers, body })).status
  }
  const startMs = backend.now.getTime()
  backend.now = new Date(startMs + 24 * 60 * MINUTE_MS)
  t.equal(await guess('wrong wrong wrong'), 401)
  t.equal(await guess(PASSWORD), 200)
  backend.now = new Date(startMs)
  t.equal(await guess(PASSWORD), 200)

  // Regression: from a backend whose clock was more than a minute behind, the count began again.
  backend.now = new Date(startMs + 2 * MINUTE_MS - 1_000)
  for (let guesses = 0; guesses < 5; guesses++) t.equal(await guess('wrong wrong wrong'), 401)
  backend.now = new Date(startMs)
  t.equal(await guess(PASSWORD), 429, 'the guesses count if the clock is two minutes behind')
})

t.test(
  'failed logins are in the audit log, but without an e-mail address that no user has',
  async (t) => {
    const { backend, account, admin } = await startSettings(t)
    const entered = 'my-password-by-mistake'
    await logIn(backend, ADMIN, 'wrong wrong wrong')
    await logIn(backend, entered, 'wrong wrong wrong')
    const failed = await backend.database.read
      .selectFrom('audit_log')
      .selectAll()
      .where('action', '=', 'user.login_failed')
      .orderBy('id')
      .execute()
    matches(t, failed, [
      { account_id: account.id, subject_id: admin.id, detail: `{"email":"${ADMIN}"}` },
      { account_id: null, subject_id: null, detail: '{}' },
    ])
    const ada = await logIn(backend, ADMIN)
    const log = await ada.get('/settings/audit-log')
    matches(t, log.json['data'], [
      { action: 'user.logged_in' },
      { action: 'user.login_failed' },
      { action: 'user.created' },
      { action: 'user.created' },
      { action: 'account.created' },
    ])
    t.notMatch(log.text, entered)
  },
)

t.test('concurrent guesses are all counted, per user and per network', async (t) => {
  const { backend } = await startSettings(t)
  const attemptLogin = (address: string, email: string) =>
    backend.request('POST', '/settings/login', {
      headers: { ...JSON_ONLY, 'x-receivables-client-address': address },
      body: { email, password: 'wrong wrong wrong' },
    })
  const statuses = async (responses: Promise<{ status: number }>[]) =>
    (await Promise.all(responses)).map(({ status }) => status).toSorted()
  const many = await statuses(Array.from({ length: 12 }, () => attemptLogin('192.0.2.1', ADMIN)))
  t.strictSame(many, [...Array(5).fill(401), ...Array(7).fill(429)])
  const spray = Array.from({ length: 8 }, (_, n) =>
    attemptLogin(`2001:db8:1:2::${n}`, `a${n}@b.example`),
  )
  t.strictSame(await statuses(spray), [...Array(5).fill(401), ...Array(3).fill(429)])
  t.equal((await attemptLogin('2001:db8:1:3::1', 'c@b.example')).status, 401, 'another network')
  const short = Array.from({ length: 8 }, (_, n) =>
    attemptLogin(`2001:db8::${n + 1}`, `d${n}@b.example`),
  )
  t.strictSame(
    await statuses(short),
    [...Array(5).fill(401), ...Array(3).fill(429)],
    'addresses in the short notation are of the same network',
  )
})

t.test('wrong passwords that others enter do not lock a person out', async (t) => {
  // Regression: anyone who knew the e-mail address could block logins, confirmations and mailed links.
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const guess = () =>
    backend.request('POST', '/settings/login', {
      headers: { ...JSON_ONLY, 'x-receivables-client-address': '203.0.113.7' },
      body: { email: ADMIN, password: 'wrong wrong wrong' },
    })
  const statuses: number[] = []
  for (let count = 0; count < 6; count++) statuses.push((await guess()).status)
  t.equal(statuses.at(-1), 429)
  t.equal((await logIn(backend, ADMIN)).response.status, 200, 'a known browser need not wait')
  t.equal((await ada.send('POST', '/settings/confirm', { password: PASSWORD })).status, 204)
  t.equal((await guess()).status, 429, 'the login does not end the wait of others')
  const inKnownBrowser: number[] = []
  for (let count = 0; count < 6; count++) {
    inKnownBrowser.push((await logIn(backend, ADMIN, 'wrong wrong wrong')).response.status)
  }
  t.strictSame(inKnownBrowser, [401, 401, 401, 401, 401, 429], 'guesses there are limited too')
})

t.test('guesses at different spellings of an e-mail address are counted together', async (t) => {
  // Regression: in a known browser, each number of spaces before the address had a count of its own.
  const { backend } = await startSettings(t)
  const guessInUnknownBrowser = (email: string) => {
    const body = { email, password: 'wrong wrong wrong' }
    return backend.request('POST', '/settings/login', { headers: JSON_ONLY, body })
  }
  const guessInKnownBrowser = async (email: string) =>
    (await logIn(backend, email, 'wrong wrong wrong')).response
  t.equal((await logIn(backend, ADMIN)).response.status, 200)
  for (const guess of [guessInUnknownBrowser, guessInKnownBrowser]) {
    const statuses: number[] = []
    for (const email of [` ${ADMIN}`, `  ${ADMIN}`, `${ADMIN} `, ADMIN.toUpperCase(), ADMIN, ADMIN])
      statuses.push((await guess(email)).status)
    t.strictSame(statuses, [401, 401, 401, 401, 401, 429])
  }
})
