// Forms that change a record, in two browser windows at once.
import type { Page } from 'playwright-core'
import t from 'tap'
import { createPageCheck, logIn, PASSWORD, startSite } from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)
const { url, system, accountId } = site
const bob = ['--email', 'bob@acme.example', '--role', 'admin', '--password', PASSWORD]
await system.operator.cli('users', 'create', '--account', accountId, ...bob)

t.test(
  'two windows change different fields of a customer, and both changes are kept',
  async (t) => {
    const { secret: key } = await system.operator.issueKey(accountId)
    const body = { name: 'Jansen Bouw', email: 'ap@jansen.example' }
    const { json: debtor } = await call(`${url}/api/v1/debtors`, { key, body })
    const one = await site.newPage(t, { user: 'ada@acme.example' })
    const other = await one.context().newPage()
    for (const page of [one, other]) await page.goto(`/settings/customers/${debtor['id']}/edit`)
    await one.getByLabel('Telephone').fill('+31205550142')
    await one.getByRole('button', { name: 'Save' }).click()
    await one.getByText('Customer changed.').waitFor()
    await other.getByLabel('Name').fill('Jansen Bouw B.V.')
    await other.getByLabel('Country').fill('Holland')
    await other.getByRole('button', { name: 'Save' }).click()
    await other.getByRole('alert').getByText('Country must be').waitFor()
    await other.getByLabel('Country').fill('NL')
    await other.getByRole('button', { name: 'Save' }).click()
    await other.getByRole('heading', { name: 'Jansen Bouw B.V.' }).waitFor()
    t.equal(await other.getByText('+31205550142').count(), 1)
  },
)

t.test(
  'the notes of an invoice keep their line breaks when another field is changed',
  async (t) => {
    // Regression: the field for the notes had one line, so that the browser removed the line breaks.
    const { secret: key } = await system.operator.issueKey(accountId)
    const create = async (path: string, body: object) =>
      (await call(`${url}/api/v1/${path}`, { key, body })).json
    const debtor = await create('debtors', { name: 'Globex' })
    const invoice = await create('invoices', {
      ...{ debtor_id: debtor['id'], currency: 'EUR', amount: 12_500, number: 'G-1' },
      notes: 'Deliver to the back door.\nRing twice.',
    })
    const page = await site.newPage(t, { user: 'ada@acme.example' })
    await page.goto(`/settings/invoices/${invoice['id']}/edit`)
    await createPageCheck(t, page)('invoice-edit-notes')
    const notes = async () =>
      (await call(`${url}/api/v1/invoices/${invoice['id']}`, { key })).json['notes']
    await page.getByLabel('Purchase order').fill('PO-9')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Invoice changed.').waitFor()
    t.equal(await notes(), 'Deliver to the back door.\nRing twice.')
    await page.goto(`/settings/invoices/${invoice['id']}/edit`)
    await page.getByLabel('Notes').fill('Deliver to the back door.\nRing once.')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Invoice changed.').waitFor()
    t.equal(await notes(), 'Deliver to the back door.\nRing once.')
  },
)

/** Logs the browser out without loading a page. */
async function endSession(page: Page): Promise<void> {
  await page.context().clearCookies({ name: 'session' })
}

for (const javaScriptEnabled of [true, false]) {
  const scripts = javaScriptEnabled ? 'with scripts' : 'without scripts'

  t.test(`a form sent after the session has ended keeps its entries, ${scripts}`, async (t) => {
    const { secret: key } = await system.operator.issueKey(accountId)
    const { json: debtor } = await call(`${url}/api/v1/debtors`, { key, body: { name: 'Initech' } })
    const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled })
    const check = javaScriptEnabled ? createPageCheck(t, page) : async () => {}
    await page.goto(`/settings/customers/${debtor['id']}/edit`)
    await page.getByLabel('Name').fill('Initech “B.V.” <b>')
    await endSession(page)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
    await check('session-ended')
    const opened = page.context().waitForEvent('page')
    await page.getByRole('link', { name: 'Log in' }).click()
    const login = await opened
    await logIn(login, 'bob@acme.example')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('This form was opened by another user').waitFor()
    await check('form-of-another-user')
    t.notMatch(await page.content(), /B\.V\./, 'another user does not see the entries')
    await endSession(page)
    await logIn(login, 'ada@acme.example')
    await page.reload()
    await page.getByRole('alert').getByText('send it again').waitFor()
    await check('form-again')
    t.equal(await page.getByLabel('Name').inputValue(), 'Initech “B.V.” <b>')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Customer changed.').waitFor()
    await page.getByRole('heading', { name: 'Initech “B.V.” <b>' }).waitFor()
  })
}

t.test('a form in a dialog keeps the reason that was entered before another login', async (t) => {
  const { secret: key } = await system.operator.issueKey(accountId)
  const { json: debtor } = await call(`${url}/api/v1/debtors`, { key, body: { name: 'Hooli' } })
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.goto(`/settings/customers/${debtor['id']}`)
  await page.getByRole('button', { name: /^Pause/ }).click()
  await page.getByLabel('Reason').fill('They move to another office.')
  await endSession(page)
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^Pause/ })
    .click()
  await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
  const opened = page.context().waitForEvent('page')
  await page.getByRole('link', { name: 'Log in' }).click()
  await logIn(await opened, 'ada@acme.example')
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('alert').getByText('send it again').waitFor()
  t.equal(await page.getByLabel('Reason').inputValue(), 'They move to another office.')
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^Pause/ })
    .click()
  await page.getByText('They move to another office.').waitFor()
})
