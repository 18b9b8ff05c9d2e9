// Two-factor authentication, recovery codes and a forgotten password, in a browser without scripts.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { totpCode, totpStep } from '../../backend/users/totp.ts'
import {
  clickAndLoad,
  createPageCheck,
  logIn,
  PASSWORD,
  startSite,
} from '../fixtures/servers/browser.ts'
import { startSmtpServer } from '../fixtures/servers/smtp.ts'
import { until } from '../fixtures/service/until.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const smtp = await startSmtpServer(t)
const MAIL_FROM = 'Receivables <receivables@acme-shop.nl>'
const site = await startSite(t, { SMTP_URL: smtp.url, MAIL_FROM })
const { system, accountId } = site
const REACHABLE = 'eva@acme-shop.nl'
const NEW_PASSWORD = 'a walk along the canal'
const login = ['--email', REACHABLE, '--role', 'member', '--password', PASSWORD]
await system.operator.cli('users', 'create', '--account', accountId, ...login)

/** Checks pages that were loaded without scripts. axe itself is a script and therefore checks a copy. */
async function createPageCheckWithoutScripts(t: Test, page: Page) {
  const copy = await site.newPage(t)
  let body = ''
  await copy.route('**/copy', (route) => route.fulfill({ body, contentType: 'text/html' }))
  const check = createPageCheck(t, copy)
  return async (name: string) => {
    body = (await page.content()).replaceAll(/<script[^>]*><\/script>/g, '')
    await copy.goto('/settings/copy')
    await check(name)
  }
}

t.test(
  'a person sets up an authenticator app, and logs in with its code or with a recovery code',
  async (t) => {
    const page = await site.newPage(t, { javaScriptEnabled: false })
    const check = await createPageCheckWithoutScripts(t, page)
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    await logIn(page, 'mia@acme.example')
    await clickAndLoad(page, page.getByRole('link', { name: 'Your login' }))
    await clickAndLoad(page, page.getByRole('link', { name: 'Set up two-factor authentication' }))
    await check('no-script-two-factor')
    await clickAndLoad(page, button('Set up'))
    await page.getByRole('img', { name: 'QR code with the key below' }).waitFor()
    t.equal(await page.getByRole('button', { name: /Copy/ }).count(), 0)
    const secret = (await page.getByLabel('Key', { exact: true }).inputValue()).replaceAll(' ', '')
    await page.getByLabel('Code', { exact: true }).fill('000000')
    await clickAndLoad(page, button('Turn on'))
    await page.getByRole('alert').waitFor()
    await check('no-script-two-factor-fault')
    t.equal(
      (await page.getByLabel('Key', { exact: true }).inputValue()).replaceAll(' ', ''),
      secret,
    )
    await page.getByLabel('Code', { exact: true }).fill(totpCode(secret, totpStep(new Date())))
    await clickAndLoad(page, button('Turn on'))
    const [recovery = ''] = (await page.getByLabel('Recovery codes').inputValue()).split('\n')
    await check('no-script-recovery-codes')
    await clickAndLoad(page, page.getByRole('link', { name: 'I have stored the codes' }))
    await page.getByText('You log in with your password and a code from your app.').waitFor()

    const enterPassword = async () => {
      await clickAndLoad(page, button('Log out'))
      await page.getByRole('status').getByText('You are logged out.').waitFor()
      await page.getByLabel('E-mail').fill('mia@acme.example')
      await page.getByLabel('Password').fill(PASSWORD)
      await clickAndLoad(page, button('Log in'))
      await page.getByRole('heading', { name: 'Enter your code' }).waitFor()
    }
    await enterPassword()
    await page.getByLabel('Code', { exact: true }).fill('000000')
    await clickAndLoad(page, button('Log in'))
    await page.getByRole('alert').waitFor()
    await check('no-script-code-fault')
    // The setup has used the code of this time step; the code of the next step is already accepted.
    await page.getByLabel('Code', { exact: true }).fill(totpCode(secret, totpStep(new Date()) + 1))
    await clickAndLoad(page, button('Log in'))
    await page.getByRole('heading', { name: 'Home', exact: true }).waitFor()

    await enterPassword()
    await page.getByLabel('Code', { exact: true }).fill(recovery)
    await clickAndLoad(page, button('Log in'))
    await page.getByRole('heading', { name: 'Home', exact: true }).waitFor()
    await clickAndLoad(page, page.getByRole('link', { name: 'Your login' }))
    await clickAndLoad(page, page.getByRole('link', { name: 'Manage two-factor authentication' }))
    await clickAndLoad(page, button('Create new recovery codes'))
    t.notMatch(await page.getByLabel('Recovery codes').inputValue(), recovery)
    await clickAndLoad(page, page.getByRole('link', { name: 'I have stored the codes' }))
    await clickAndLoad(page, button('Turn off'))
    await page.getByText('The authenticator app is turned off.').waitFor()
  },
)

t.test('a forgotten password is reset through the mailed link', async (t) => {
  const page = await site.newPage(t, { javaScriptEnabled: false })
  const check = await createPageCheckWithoutScripts(t, page)
  await page.goto('/settings/login')
  await clickAndLoad(page, page.getByRole('link', { name: 'Forgot your password?' }))
  await page.getByLabel('E-mail').fill('mia@acme.example')
  await clickAndLoad(page, page.getByRole('button', { name: 'Send link' }))
  await page.getByText('reserved for examples').waitFor()
  await check('no-script-reset-no-mail')
  await clickAndLoad(page, page.getByRole('link', { name: 'Enter another address' }))
  await page.getByLabel('E-mail').fill(REACHABLE)
  await clickAndLoad(page, page.getByRole('button', { name: 'Send link' }))
  await page.getByRole('heading', { name: 'Check your e-mail' }).waitFor()
  await check('no-script-reset-requested')
  let link = ''
  await until(async () => {
    const texts = smtp.mails.map(({ mail }) => String(mail.text))
    link = /http\S+new-password#\S+/.exec(texts.join('\n'))?.[0] ?? ''
    return link !== ''
  }, 'the link is mailed')
  await page.goto(link)
  await check('no-script-new-password')
  await page.getByLabel('Code from your link').fill(new URL(link).hash.slice(1))
  await page.getByLabel('New password').fill('password')
  await clickAndLoad(page, page.getByRole('button', { name: 'Set password' }))
  await page.getByRole('alert').waitFor()
  await check('no-script-new-password-fault')
  await page.getByLabel('New password').fill(NEW_PASSWORD)
  await clickAndLoad(page, page.getByRole('button', { name: 'Set password' }))
  await page.getByRole('heading', { name: 'Your password was changed' }).waitFor()
  await clickAndLoad(page, page.getByRole('link', { name: 'Log in' }))
  await page.getByLabel('E-mail').fill(REACHABLE)
  await page.getByLabel('Password').fill(NEW_PASSWORD)
  await clickAndLoad(page, page.getByRole('button', { name: 'Log in', exact: true }))
  await page.getByRole('heading', { name: 'Home', exact: true }).waitFor()
})
