// A person who logs in with a new browser is notified by mail.
import t, { type Test } from 'tap'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'
import type { Response } from '../../fixtures/service/backend.ts'
import { cookieOf, createUserIn, JSON_ONLY, PASSWORD } from '../../fixtures/service/settings.ts'

const ADA = 'ada@acme.nl'
const BEN = 'ben@acme.nl'
const DAY_MS = 86_400_000
const FIREFOX = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0'

async function startWithAdmins(t: Test) {
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  for (const email of [ADA, BEN]) await createUserIn(backend, accountId, email, 'admin')
  const logIn = (email: string, cookie = '', password = PASSWORD) =>
    backend.request('POST', '/settings/login', {
      headers: {
        ...JSON_ONLY,
        cookie,
        'user-agent': FIREFOX,
        'x-receivables-client-address': '203.0.113.9',
      },
      body: { email, password },
    })
  const mailNotices = async () => {
    const before = engine.smtp.mails.length
    await engine.service.sendNotices()
    return engine.smtp.mails.slice(before)
  }
  return { engine, backend, logIn, mailNotices }
}

const browserCookieOf = (response: Response) => cookieOf(response, 'browser')

t.test(
  'a login with an unknown browser causes a mail with details; a login with a known browser does not',
  async (t) => {
    const { logIn, mailNotices } = await startWithAdmins(t)
    const first = await logIn(ADA)
    const cookie = browserCookieOf(first)
    const header = first.headers.getSetCookie().find((each) => each.startsWith(cookie))
    matches(
      t,
      header,
      /^__Host-browser=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=34560000$/,
    )
    const [mail, ...others] = await mailNotices()
    t.strictSame([mail?.to, others], [[ADA], []])
    t.equal(mail?.mail.subject, 'Your login was used in a new browser')
    for (const part of [
      'Browser: Firefox on Windows, from the address 203.0.113.9.',
      'Time: 21 November 2026 at 11:15 (Europe/Amsterdam).',
      '/settings/login-details',
    ]) {
      matches(t, mail?.mail.text, containing(part))
    }
    t.equal(browserCookieOf(await logIn(ADA, cookie)), cookie)
    t.strictSame(await mailNotices(), [])
    t.equal((await logIn(ADA, cookie, 'wrong password')).status, 401)
    t.equal(
      browserCookieOf(await logIn(ADA, '', 'wrong password')),
      '',
      'a failed login sets no cookie',
    )
    t.strictSame(await mailNotices(), [])
  },
)

t.test('people who share a browser share its cookie; a made-up cookie is replaced', async (t) => {
  const { logIn, mailNotices } = await startWithAdmins(t)
  const cookie = browserCookieOf(await logIn(ADA))
  t.equal(browserCookieOf(await logIn(BEN, cookie)), cookie)
  t.strictSame((await mailNotices()).flatMap(({ to }) => to).sort(), [ADA, BEN])
  t.equal(browserCookieOf(await logIn(ADA, cookie)), cookie)
  t.equal(browserCookieOf(await logIn(BEN, cookie)), cookie)
  t.strictSame(await mailNotices(), [], 'the browser is known for both')
  const planted = `__Host-browser=${'x'.repeat(43)}`
  t.not(browserCookieOf(await logIn(ADA, planted)), planted)
  t.equal((await mailNotices()).length, 1)
})

t.test(
  'logins without cookies cause five mails a day, and do not evict a known browser',
  async (t) => {
    const { backend, logIn, mailNotices } = await startWithAdmins(t)
    const cookie = browserCookieOf(await logIn(ADA))
    backend.now = new Date(backend.now.getTime() + DAY_MS)
    t.equal(browserCookieOf(await logIn(ADA, cookie)), cookie)
    await mailNotices()
    for (let count = 0; count < 25; count++) t.equal((await logIn(ADA)).status, 200)
    const mails = await mailNotices()
    t.equal(mails.length, 5)
    const last = mails.filter(({ mail }) => mail.text?.includes('the last of these mails'))
    t.equal(last.length, 1)
    t.equal(browserCookieOf(await logIn(ADA, cookie)), cookie, 'the browser is still known')
    const rows = await backend.database.read.selectFrom('known_browsers').selectAll().execute()
    t.equal(rows.length, 20)
    t.notOk(JSON.stringify(rows).includes(cookie.split('=')[1] ?? ''), 'only the hash is stored')
  },
)

// Regression: the limit of mails a day counted the new browsers in the table. If many older browsers were known, the
// new ones were deleted before the count, so each login caused a mail.
t.test(
  'logins without cookies cause five mails a day even if many browsers are known',
  async (t) => {
    const { backend, logIn, mailNotices } = await startWithAdmins(t)
    const cookies: string[] = []
    for (let count = 0; count < 20; count++) cookies.push(browserCookieOf(await logIn(ADA)))
    backend.now = new Date(backend.now.getTime() + DAY_MS)
    for (const cookie of cookies) t.equal(browserCookieOf(await logIn(ADA, cookie)), cookie)
    await mailNotices()
    for (let count = 0; count < 10; count++) t.equal((await logIn(ADA)).status, 200)
    const mails = await mailNotices()
    t.equal(mails.length, 5)
    const isLast = mails.map(({ mail }) => mail.text?.includes('the last of these mails'))
    t.equal(isLast.filter(Boolean).length, 1)
  },
)

// Regression: the browser of the current login was deleted, so each further login with it caused a mail.
t.test('a new browser is recognized even if the user has used many others', async (t) => {
  const { backend, logIn, mailNotices } = await startWithAdmins(t)
  const cookies: string[] = []
  for (let count = 0; count < 20; count++) cookies.push(browserCookieOf(await logIn(ADA)))
  backend.now = new Date(backend.now.getTime() + DAY_MS)
  for (const cookie of cookies) t.equal(browserCookieOf(await logIn(ADA, cookie)), cookie)
  backend.now = new Date(backend.now.getTime() + DAY_MS)
  const added = browserCookieOf(await logIn(ADA))
  await mailNotices()
  t.equal(browserCookieOf(await logIn(ADA, added)), added)
  t.strictSame(await mailNotices(), [])
})
