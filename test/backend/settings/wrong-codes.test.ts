// A person is notified by mail if somebody enters their password, and then wrong codes of the second factor.
import t from 'tap'
import { totpCode, totpStep } from '../../../backend/users/totp.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'
import {
  cookieOf,
  createUserIn,
  JSON_ONLY,
  logIn,
  PASSWORD,
} from '../../fixtures/service/settings.ts'

const ADA = 'ada@acme.nl'
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

t.test('five wrong codes after the right password cause one mail in 24 hours', async (t) => {
  // Regression: the owner of a login was not notified that another person knew the password.
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  await createUserIn(backend, accountId, ADA, 'admin')
  const ada = await logIn(backend, ADA)
  const setup = await ada.send('POST', '/settings/two-factor/setup')
  const code = totpCode(String(setup.json['secret']), totpStep(backend.now))
  t.equal((await ada.send('POST', '/settings/two-factor/enable', { code })).status, 200)
  const mailNotices = async () => {
    const before = engine.smtp.mails.length
    await engine.service.sendNotices()
    return engine.smtp.mails.slice(before)
  }
  await mailNotices()
  const post = (path: string, body: object, cookie = '') =>
    backend.request('POST', path, {
      headers: { ...JSON_ONLY, cookie, 'x-receivables-client-address': '203.0.113.9' },
      body,
    })
  const enterWrongCodes = async (count: number) => {
    for (let entered = 0; entered < count; entered++) {
      // After a quarter of an hour, earlier guesses no longer count against the limit.
      backend.now = new Date(backend.now.getTime() + 16 * MINUTE_MS)
      const pending = await post('/settings/login', { email: ADA, password: PASSWORD })
      t.equal(pending.status, 202)
      const { status } = await post('/settings/login/code', { code: '1' }, cookieOf(pending))
      t.equal(status, 401)
    }
  }
  await enterWrongCodes(4)
  t.strictSame(await mailNotices(), [], 'these may be typing errors')
  await enterWrongCodes(1)
  const [mail, ...others] = await mailNotices()
  t.strictSame([mail?.to, others], [[ADA], []])
  t.equal(mail?.mail.subject, 'Wrong codes were entered for your login')
  matches(t, mail?.mail.text, containing(`Someone entered the password of ${ADA}`))
  matches(t, mail?.mail.text, containing('from the address 203.0.113.9'))
  await enterWrongCodes(6)
  t.strictSame(await mailNotices(), [])
  backend.now = new Date(backend.now.getTime() + DAY_MS)
  await enterWrongCodes(4)
  t.strictSame(await mailNotices(), [])
  await enterWrongCodes(1)
  t.equal((await mailNotices()).length, 1)
})
