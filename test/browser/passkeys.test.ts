// Passkeys in a browser, with Chromium's virtual authenticator.
import type { CDPSession, Page } from 'playwright-core'
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import {
  clickAndLoad,
  createPageCheck,
  logIn,
  PASSWORD,
  startSite,
  tabTo,
} from '../fixtures/servers/browser.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)
/** Passkeys work only under a host name, not under an IP address. */
const url = site.url.replace('127.0.0.1', 'localhost')

async function addAuthenticator(page: Page): Promise<CDPSession> {
  const session = await page.context().newCDPSession(page)
  await session.send('WebAuthn.enable')
  await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return session
}

t.test(
  'a passkey is added by keyboard, and is used for login with or without the password',
  async (t) => {
    const page = await site.newPage(t, { baseURL: url })
    const faults: string[] = []
    page.on('pageerror', (error) => faults.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error' && !/status of 4/.test(message.text()))
        faults.push(message.text())
    })
    const check = createPageCheck(t, page)
    await addAuthenticator(page)
    await page.goto('/settings/login')
    await page.getByRole('button', { name: 'Log in with a passkey' }).waitFor()
    await check('passkey-login')
    await logIn(page, 'ada@acme.example')
    await page.goto('/settings/two-factor')
    await check('passkeys-none')
    await clickAndLoad(page, page.getByRole('link', { name: 'Add a passkey' }))
    await page.getByLabel('Name').waitFor()
    await check('passkey-new')
    await tabTo(page, page.getByLabel('Name'))
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('Give the passkey a name').first().waitFor()
    await check('passkey-no-name')
    await tabTo(page, page.getByLabel('Name'))
    await page.keyboard.type('Work laptop of Ada')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Store your recovery codes' }).waitFor()
    await page.getByRole('button', { name: 'Copy recovery codes' }).waitFor()
    const codes = await page.getByLabel('Recovery codes', { exact: true }).inputValue()
    t.equal(codes.split('\n').length, 10, 'there are ten codes, one per line')
    await check('passkey-codes')
    await clickAndLoad(page, page.getByRole('link', { name: 'I have stored the codes' }))
    const row = page.getByRole('row', { name: /Work laptop of Ada/ })
    await row.getByText('Never').waitFor()
    await check('passkeys-one')

    await page.goto('/settings/passkeys/new')
    await page.getByLabel('Name').fill('Again')
    await page.getByRole('button', { name: 'Add passkey' }).click()
    await page.getByText('This device already has a passkey for your login.').waitFor()
    await check('passkey-again')

    await page.getByRole('button', { name: 'Log out' }).click()
    await tabTo(page, page.getByRole('button', { name: 'Log in with a passkey' }))
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Home', exact: true }).waitFor()
    await page.goto('/settings/two-factor')
    await row.getByText('just now').waitFor()

    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('E-mail').fill('ada@acme.example')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Log in', exact: true }).click()
    await page.getByRole('heading', { name: 'Use your passkey' }).waitFor()
    await check('passkey-step')
    await page.getByRole('button', { name: 'Log in with a passkey' }).click()
    await page.getByRole('heading', { name: 'Home', exact: true }).waitFor()

    await page.goto('/settings/two-factor')
    await page.getByRole('button', { name: 'Rename Work laptop of Ada' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('Old laptop')
    await dialog.getByRole('button', { name: 'Rename' }).click()
    await page.getByRole('row', { name: /Old laptop/ }).waitFor()
    await page.getByRole('button', { name: 'Remove Old laptop' }).click()
    const removal = page.getByRole('alertdialog')
    await removal.getByText('This is your only second factor.').waitFor()
    await check('passkey-remove')
    await removal.getByRole('button', { name: 'Remove passkey' }).click()
    await page.getByText('Passkey removed. It can no longer be used to log in.').waitFor()
    t.strictSame(faults, [])
  },
)

t.test('after a rejected passkey or a canceled attempt, a message says what to do', async (t) => {
  const page = await site.newPage(t, { baseURL: url })
  const check = createPageCheck(t, page)
  const session = await addAuthenticator(page)
  await logIn(page, 'mia@acme.example')
  await page.goto('/settings/passkeys/new')
  await page.getByLabel('Name').fill('Phone')
  await page.getByRole('button', { name: 'Add passkey' }).click()
  await clickAndLoad(page, page.getByRole('link', { name: 'I have stored the codes' }))
  await page.getByRole('button', { name: 'Remove Phone' }).click()
  await page.getByRole('button', { name: 'Remove passkey' }).click()
  await page.getByText('Passkey removed. It can no longer').waitFor()
  await page.getByRole('button', { name: 'Log out' }).click()
  const button = page.getByRole('button', { name: 'Log in with a passkey' })
  await button.click()
  await page.getByRole('alert').getByText('This passkey was not accepted.').waitFor()
  await check('passkey-rejected')
  await session.send('WebAuthn.disable')
  await session.send('WebAuthn.enable')
  await page.evaluate(
    "navigator.credentials.get = () => Promise.reject(new DOMException('', 'NotAllowedError'))",
  )
  await button.click()
  await page.getByRole('alert').getByText('No passkey was used').waitFor()
  await check('passkey-cancelled')
})

t.test('if passkeys cannot be used, the page says why', async (t) => {
  const page = await site.newPage(t)
  const check = createPageCheck(t, page)
  await page.goto('/settings/login')
  await page.getByText(`Passkeys work at another address of this service: ${url}`).waitFor()
  t.equal(await page.getByRole('button', { name: 'Log in with a passkey' }).count(), 0)
  await check('passkey-elsewhere')
  const oldPage = await site.newPage(t, { baseURL: url })
  await oldPage.context().addInitScript('delete PublicKeyCredential.parseRequestOptionsFromJSON')
  await oldPage.goto('/settings/login')
  await oldPage.getByText('This browser does not support passkeys').waitFor()
  t.equal(await oldPage.getByRole('button', { name: 'Log in with a passkey' }).count(), 0)

  const plainPage = await site.newPage(t, { baseURL: url, javaScriptEnabled: false })
  await plainPage.goto('/settings/login')
  t.equal(await plainPage.getByRole('button', { name: 'passkey' }).count(), 0)
  await logIn(plainPage, 'ada@acme.example')
  await plainPage.goto('/settings/passkeys/new')
  matches(t, await plainPage.textContent('noscript'), /Without scripts, use an authenticator app/)
})
