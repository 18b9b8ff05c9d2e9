// Actions that need a confirmation: in a dialog, or without scripts on a page.
import t from 'tap'
import {
  logIn,
  startSite,
  tabTo,
  takeScreenshots,
  violationsOf,
} from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)
const { url, system, accountId } = site
const { secret: key } = await system.operator.issueKey(accountId)

async function createCustomer(name: string): Promise<string> {
  const response = await call(`${url}/api/v1/debtors`, { key, body: { name } })
  t.equal(response.status, 201, response.text)
  return `/settings/customers/${response.json.id}`
}

t.test('archiving a customer is confirmed in a dialog, which works by keyboard', async (t) => {
  const path = await createCustomer('Café Zoë')
  const page = await site.newPage(t)
  const faults: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(String(error)))
  await logIn(page, 'ada@acme.example')
  await page.goto(path)
  const link = page.getByRole('button', { name: 'Archive…' })
  await tabTo(page, link)
  await page.keyboard.press('Space')
  const dialog = page.getByRole('alertdialog', { name: 'Archive Café Zoë?' })
  await dialog.getByText('This customer owes nothing.').waitFor()
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Cancel')
  t.strictSame(await violationsOf(page), [])
  await takeScreenshots(page, 'dialog-archive')
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Archive…')
  await page.keyboard.press('Enter')
  await dialog.getByRole('button', { name: 'Archive customer' }).click()
  await page.getByText('Customer archived. No more reminders are sent.').waitFor()
  t.equal(new URL(page.url()).pathname, path)
  t.strictSame(faults, [])

  await page.goto(`${path}x/archive`)
  await page.getByRole('heading', { name: 'Not found' }).waitFor()
  t.equal(
    await page.getByRole('link', { name: 'Customers' }).count(),
    1,
    'the error page has the navigation',
  )
  t.strictSame(await violationsOf(page), [])
})

t.test('a double click on a link opens one dialog', async (t) => {
  // Regression: it opened two dialogs, one beneath the other.
  const path = await createCustomer('Dubbel')
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.goto(path)
  const bothClicked = Promise.withResolvers<void>()
  let requestCount = 0
  await page.route(`**${path}/archive`, async (route) => {
    requestCount += 1
    await bothClicked.promise
    await route.continue()
  })
  const link = page.getByRole('button', { name: 'Archive…' })
  const dialog = page.getByRole('alertdialog', { name: 'Archive Dubbel?' })
  await link.dblclick()
  bothClicked.resolve()
  await dialog.waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  t.equal(requestCount, 1)
  await link.click()
  await dialog.waitFor()
  t.equal(requestCount, 2, 'the link opens the dialog again')
})

t.test(
  'without scripts, the link to archive a customer leads to a confirmation page',
  async (t) => {
    const path = await createCustomer('Bakker')
    const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled: false })
    await page.goto(path)
    await page.getByRole('link', { name: 'Archive…' }).click()
    await page.getByRole('heading', { name: 'Archive Bakker?' }).waitFor()
    await page.getByRole('link', { name: 'Cancel' }).click()
    t.equal(new URL(page.url()).pathname, path)
    await page.goBack()
    await page.getByRole('button', { name: 'Archive customer' }).click()
    await page.getByText('Customer archived. No more reminders are sent.').waitFor()
  },
)

t.test('a deleted endpoint has no page, but its deliveries stay in the log', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.goto('/settings/webhook-endpoints/new')
  await page.getByLabel('Endpoint URL').fill('https://hooks.example/receivables')
  await page.getByLabel('invoice.paid').check()
  await page.getByRole('button', { name: 'Add endpoint' }).click()
  await page.getByLabel('I have stored the secret').check()
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('button', { name: 'Send test event' }).click()
  await page.getByRole('heading', { name: 'webhook.test' }).waitFor()
  const delivery = page.url()
  await page.goBack()
  const endpoint = page.url()
  await page.getByRole('button', { name: 'Delete…' }).click()
  const dialog = page.getByRole('alertdialog', { name: 'Delete this endpoint?' })
  await dialog.getByText('1 attempt in the last 24 hours').waitFor()
  await takeScreenshots(page, 'dialog-delete-endpoint')
  await dialog.getByRole('button', { name: 'Delete endpoint' }).click()
  await page.getByText('Endpoint deleted.').waitFor()
  await page.getByText('There is no endpoint yet.').waitFor()
  await page.goto(endpoint)
  await page.getByRole('heading', { name: 'Not found' }).waitFor()
  await page.goto(delivery)
  await page.getByText('https://hooks.example/receivables (deleted)').waitFor()
  t.equal(await page.getByRole('button', { name: 'Redeliver' }).count(), 0)
})
