// API keys from issue to revocation, and the people of an account, in a browser.
import t from 'tap'
import { containing, matches } from '../fixtures/matches.ts'
import {
  clickAndLoad,
  logIn,
  PASSWORD,
  startSite,
  tabTo,
  takeScreenshots,
  violationsOf,
} from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'
import { until } from '../fixtures/service/until.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)
const { url, system } = site
const me = (key: string) => call(`${url}/api/v1/me`, { key })

t.test('an Admin issues a key, uses it, and revokes it', async (t) => {
  const page = await site.newPage(t)
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  const urls: string[] = []
  page.on('request', (request) => urls.push(request.url()))
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('console', (message) => {
    // The browser reports every 4xx response as an error, which is expected. A blocked style or script is not.
    if (message.type() === 'error' && !/status of 4/.test(message.text()))
      faults.push(message.text())
  })
  const check = async (name: string) => {
    await takeScreenshots(page, name)
    t.strictSame(await violationsOf(page), [], `${name}: no violations`)
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
  }

  await page.goto('/settings')
  await check('login')
  await page.getByLabel('E-mail').fill('ada@acme.example')
  await page.getByLabel('Password').fill('not the password')
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByText('E-mail address and password do not match.').waitFor()
  await check('login-failed')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('heading', { name: 'Home', exact: true }).waitFor()
  await clickAndLoad(page, page.getByRole('link', { name: 'API & webhooks' }))
  await page.getByText('There is no API key yet.').waitFor()
  await check('no-keys')

  await clickAndLoad(page, page.getByRole('link', { name: 'Issue key' }))
  await check('issue')
  await page.getByRole('button', { name: 'Issue key' }).click()
  await page.getByRole('alert').getByText('Give the key a name.').waitFor()
  await page.getByRole('alert').getByText('Choose at least one thing the key may do.').waitFor()
  t.equal(await page.getByLabel('Name').getAttribute('aria-invalid'), 'true')
  matches(t, await page.locator('#name-fault').textContent(), containing('Give the key a name.'))
  t.equal(await page.evaluate('document.activeElement.className'), 'faults')
  await check('issue-both-faults')
  await page.getByLabel('Name').fill('ERP in Utrecht')
  await page.getByRole('button', { name: 'Issue key' }).click()
  await page.getByRole('alert').getByText('Choose at least one thing the key may do.').waitFor()
  t.equal(await page.getByLabel('Name').inputValue(), 'ERP in Utrecht')
  await check('issue-no-scope')
  await page.getByRole('link', { name: 'Record payments only' }).click()
  t.equal(await page.getByLabel('Record payments').isChecked(), true)
  await page.getByLabel('Read customers').check()
  await page.getByRole('button', { name: 'Issue key' }).click()

  await page.getByText('Key issued. It cannot be shown again.').waitFor()
  t.equal(new URL(page.url()).pathname, '/settings/api-keys')
  await check('reveal')
  t.equal(await page.getByRole('button', { name: 'Done' }).isDisabled(), true)
  await page.getByRole('button', { name: 'Copy API key' }).click()
  await page.getByRole('status').getByText('Copied.').waitFor()
  const secret = await page.evaluate<string>('navigator.clipboard.readText()')
  matches(t, secret, /^rcv_/)
  const requested = page.waitForEvent('dialog')
  await page.evaluate("void setTimeout(() => { location.href = '/settings/audit-log' })")
  const warning = await requested
  t.equal(warning.type(), 'beforeunload', 'leaving the page needs a confirmation')
  await warning.dismiss()
  await page.keyboard.press('Escape')
  const curl = await page.getByLabel('Try it').inputValue()
  t.equal(curl, `curl ${url}/api/v1/me -H "Authorization: Bearer ${secret}"`)
  await page.getByLabel('I have stored the key').check()
  await page.getByRole('button', { name: 'Done' }).click()

  const row = page.getByRole('row', { name: /ERP in Utrecht/ })
  await row.getByText('Never').waitFor()
  matches(
    t,
    await page.getByRole('status').textContent(),
    containing('Key issued. It cannot be shown again.'),
  )
  t.notMatch(await page.content(), secret)
  await page.reload()
  t.equal(await page.getByRole('status').textContent(), '', 'the message is shown once')
  await check('never-used')

  matches(t, await me(secret), { status: 200, json: { key: { label: 'ERP in Utrecht' } } })
  t.equal((await call(`${url}/api/v1/invoices`, { key: secret })).status, 403)
  await until(async () => {
    await page.reload()
    return (await row.getByText('just now').count()) === 1
  }, 'the last use is shown')
  await check('used')

  await page.getByRole('link', { name: 'ERP in Utrecht' }).first().click()
  await page.getByRole('heading', { name: 'The last 24 hours', exact: true }).waitFor()
  await page.getByText('Show as a table').first().click()
  await check('usage')
  await page.goBack()

  await page.getByRole('button', { name: 'Revoke ERP in Utrecht' }).click()
  const dialog = page.getByRole('alertdialog')
  await dialog.getByText(/This key was used just now/).waitFor()
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Cancel')
  await check('revoke')
  await page.keyboard.press('Escape')
  t.equal(await page.evaluate('document.activeElement.dataset.prefix !== undefined'), true)
  t.equal((await me(secret)).status, 200)
  await page.keyboard.press('Enter')
  await dialog.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Key revoked.').waitFor()
  matches(t, await me(secret), { status: 401, json: { code: 'revoked_api_key' } })
  matches(t, await row.textContent(), /Revoked .+ by ada@acme\.example/)
  await check('revoked')

  await clickAndLoad(page, page.getByRole('link', { name: 'Change account-wide permissions' }))
  await check('allowance')
  await page.getByLabel('Create customers').uncheck()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Keys are limited to 6 permissions').waitFor()
  await check('narrowed')
  t.strictSame(faults, [])

  await page.goto('/settings/api-keys/key_none')
  const cookies = await page.context().cookies()
  const stored = await page.evaluate<string>(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }])',
  )
  t.equal(stored, '[{},{}]')
  const allLogs = () =>
    [system.backend.log(), ...system.gateways.map((gateway) => gateway.log())].join('')
  await until(() => allLogs().includes('not_found'), 'the logs contain the last request')
  const logs = allLogs()
  for (const canary of [secret, secret.slice('rcv_12345678_'.length), PASSWORD]) {
    t.notOk(logs.includes(canary), 'no secret is logged')
    t.notOk(JSON.stringify([urls, cookies]).includes(canary), 'no secret is in a URL or a cookie')
  }
  for (const { value } of cookies) t.notOk(logs.includes(value), 'no cookie is logged')
})

t.test('a Member sees the keys and cannot change them', async (t) => {
  await system.operator.issueKey(site.accountId, { name: 'Shop', scopes: ['debtors:write'] })
  const page = await site.newPage(t, { user: 'mia@acme.example' })
  await page.goto('/settings/api-keys')
  await page.getByRole('row', { name: /Shop/ }).waitFor()
  t.equal(await page.getByText(/issue key|revoke$/i).count(), 0)
  t.equal(await page.getByRole('link', { name: /people|audit/i }).count(), 0)
  await takeScreenshots(page, 'member')
  t.strictSame(await violationsOf(page), [])
  await page.goto('/settings/api-keys/new')
  await page.getByText('Only an Admin can issue or revoke API keys.').waitFor()
  await takeScreenshots(page, 'member-rejected')
  t.strictSame(await violationsOf(page), [])
  // The page offers no such action, so the test sends the request itself, with the cookie of the session.
  const forged = await page.request.post('/settings/api-keys', {
    form: { name: 'Mine', scopes: 'debtors:read' },
    headers: { accept: 'text/html' },
  })
  t.equal(forged.status(), 403)
  matches(t, await forged.text(), /Only an Admin can issue or revoke API keys\./)
})

t.test(
  'a person is invited, made an Admin and deactivated, and the audit log records the deactivation',
  async (t) => {
    const page = await site.newPage(t)
    const check = async (name: string) => {
      await takeScreenshots(page, name)
      t.strictSame(await violationsOf(page), [], `${name}: no violations`)
    }
    await logIn(page, 'ada@acme.example')
    await page.getByRole('link', { name: 'People' }).click()
    await page.getByText('The last Admin must keep the role.').waitFor()
    await check('last-admin')
    await page.getByRole('button', { name: 'Invite' }).click()
    await page.getByRole('alert').getByText('Enter the e-mail address to invite.').waitFor()
    await check('invite-fault')
    await page.getByLabel('E-mail').fill('eve@acme.example')
    await page.getByRole('button', { name: 'Invite' }).click()
    const link = await page.getByLabel('Invitation link').inputValue()
    await check('invited')
    await clickAndLoad(page, page.getByRole('link', { name: 'Done' }))
    await check('people')

    await clickAndLoad(page, page.getByRole('link', { name: 'Account', exact: true }))
    await check('account')
    await page.getByLabel('Time zone').fill('Mars')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('Time zone must be').waitFor()
    await check('account-fault')
    await page.getByLabel('Time zone').fill('Europe/Lisbon')
    await clickAndLoad(page, page.getByRole('button', { name: 'Save' }))
    await page.getByText('Saved.').waitFor()
    await clickAndLoad(page, page.getByRole('link', { name: 'People' }))

    const guest = await site.newPage(t)
    await guest.goto(link)
    t.equal(
      guest.url(),
      `${url}/settings/invitation`,
      'the script removes the code from the address',
    )
    await guest.getByLabel('Password').fill('password123')
    await guest.getByRole('button', { name: 'Accept' }).click()
    await guest
      .getByRole('alert')
      .getByText(/This password is easy to guess/)
      .waitFor()
    await takeScreenshots(guest, 'invitation')
    t.strictSame(await violationsOf(guest), [])
    await guest.getByLabel('Password').fill('a walk along the canal')
    await guest.getByRole('button', { name: 'Accept' }).click()
    // Regression: a new colleague, who may know nothing about APIs, landed on "API & webhooks".
    await guest.getByRole('heading', { name: 'Home', exact: true }).waitFor()
    await guest.goto(link)
    await guest.reload()

    await page.reload()
    await page.getByRole('button', { name: 'Make Admin eve@acme.example' }).click()
    await check('make-admin')
    await page.getByRole('button', { name: 'Make Admin', exact: true }).click()
    await page.getByText('Role changed.').waitFor()
    await page.getByRole('button', { name: 'Deactivate eve@acme.example' }).click()
    await page.getByText('API keys that they issued keep working.').waitFor()
    await check('deactivate')
    await page.getByRole('button', { name: 'Deactivate', exact: true }).click()
    await page.getByText('Deactivated.').waitFor()
    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.locator('tbody').getByText('Deactivated a login').first().waitFor()
    await check('audit-log')
    await clickAndLoad(page, page.getByRole('link', { name: 'Your login' }))
    await check('your-login')
    await page.getByLabel('Current password').fill('wrong wrong wrong')
    await page.getByLabel('New password').fill('another good one')
    await page.getByRole('button', { name: 'Change password' }).click()
    await page.getByRole('alert').getByText('This is not your current password.').waitFor()
    await check('your-login-fault')
    await page.goto('/settings/nowhere')
    await check('not-found')
  },
)

t.test('a key is issued and revoked without scripts', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled: false })
  await page.getByRole('link', { name: 'Issue key' }).click()
  await page.getByRole('link', { name: 'Read everything' }).click()
  await page.getByLabel('Name').fill('No script')
  await page.getByRole('button', { name: 'Issue key' }).click()
  await page.getByText('Key issued. It cannot be shown again.').waitFor()
  const secret = await page.getByLabel('API key').inputValue()
  t.equal(await page.getByRole('button', { name: /Copy/ }).count(), 0)
  await takeScreenshots(page, 'reveal-without-script')
  t.equal((await me(secret)).status, 200)
  await page.reload()
  await page.getByText('This key was already issued.').waitFor()
  t.notMatch(await page.content(), secret)
  await takeScreenshots(page, 'already-issued')
  await page.goto('/settings/api-keys')
  await page.getByRole('link', { name: 'Revoke No script' }).click()
  await takeScreenshots(page, 'revoke-without-script')
  await page.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Key revoked.').waitFor()
  t.equal((await me(secret)).status, 401)
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByRole('heading', { name: 'Log in to Settings' }).waitFor()
  await page.goto('/settings/api-keys')
  t.equal(new URL(page.url()).pathname, '/settings/login')
})

t.test('if a form is sent twice, the second response says that its key was issued', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.goto('/settings/api-keys/new')
  await page.getByLabel('Name').fill('Twice')
  await page.getByLabel('Read customers').check()
  await page.getByRole('button', { name: 'Issue key' }).click()
  await page.getByText('Key issued. It cannot be shown again.').waitFor()
  page.on('dialog', (dialog) => dialog.accept())
  await page.reload()
  await page.getByText('This key was already issued.').waitFor()
  t.strictSame(await violationsOf(page), [])
})

t.test('a key is issued and revoked by keyboard alone', async () => {
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await tabTo(page, page.getByRole('link', { name: 'Skip to content' }))
  await tabTo(page, page.getByRole('link', { name: 'Issue key' }))
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Issue key' }).waitFor()
  await tabTo(page, page.getByLabel('Name'))
  await page.keyboard.type('By keyboard')
  await tabTo(page, page.getByLabel('Read customers'))
  await page.keyboard.press('Space')
  await page.keyboard.press('Enter')
  await page.getByText('Key issued. It cannot be shown again.').waitFor()
  await tabTo(page, page.getByLabel('I have stored the key'))
  await page.keyboard.press('Space')
  await tabTo(page, page.getByRole('button', { name: 'Done' }))
  await page.keyboard.press('Enter')
  await page.getByRole('row', { name: /By keyboard/ }).waitFor()
  await tabTo(page, page.getByRole('button', { name: 'Revoke By keyboard' }))
  await page.keyboard.press('Space')
  await tabTo(page, page.getByRole('button', { name: 'Revoke key' }))
  await page.keyboard.press('Enter')
  await page.getByText('Key revoked.').waitFor()
})
