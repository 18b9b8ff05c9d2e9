// The pages of webhook endpoints and of the delivery log in a browser.
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import {
  clickAndLoad,
  logIn,
  startSite,
  takeScreenshots,
  violationsOf,
} from '../fixtures/servers/browser.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

t.test('an Admin adds an endpoint, tests it, pauses it and rotates its secret', async (t) => {
  const site = await startSite(t)
  const page = await site.newPage(t)
  const check = async (name: string) => {
    await takeScreenshots(page, name)
    t.strictSame(await violationsOf(page), [], `${name}: no violations`)
    const fits = await page.evaluate('document.documentElement.scrollWidth <= innerWidth')
    t.equal(fits, true, `${name}: no horizontal scrolling`)
  }
  await logIn(page, 'ada@acme.example')
  await page.goto('/settings/webhook-endpoints')
  await page.getByText('There is no endpoint yet.').waitFor()
  await check('webhooks-none')
  await clickAndLoad(page, page.getByRole('link', { name: 'Add endpoint' }))
  await check('webhooks-add')
  await page.getByRole('button', { name: 'Add endpoint' }).click()
  await page.getByRole('alert').getByText('Choose at least one event').waitFor()
  t.equal(await page.getByLabel('Endpoint URL').getAttribute('aria-invalid'), 'true')
  await check('webhooks-add-rejected')
  await page.getByLabel('Endpoint URL').fill('https://hooks.example/receivables')
  await page.getByLabel('Description').fill('The ERP')
  await page.getByLabel('invoice.paid').check()
  await page.getByLabel('payment.recorded').check()
  await page.getByRole('button', { name: 'Add endpoint' }).click()
  await page.getByText('Copy the signing secret now').waitFor()
  matches(t, await page.locator('#secret').inputValue(), /^whsec_/)
  await check('webhooks-secret')
  await page.getByLabel('I have stored the secret').check()
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('heading', { name: 'https://hooks.example/receivables' }).waitFor()
  await check('webhooks-endpoint')

  await page.getByRole('button', { name: 'Send test event' }).click()
  await page.getByRole('heading', { name: 'webhook.test' }).waitFor()
  await check('webhooks-delivery')
  await clickAndLoad(page, page.getByRole('link', { name: 'Delivery log' }))
  await check('webhooks-log')
  await page.locator('.back a').click()
  await page.getByRole('link', { name: 'https://hooks.example/receivables' }).click()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('Endpoint paused. Events wait until you resume it.').waitFor()
  await page.getByRole('button', { name: 'Rotate secret' }).click()
  await page.getByText('For 24 hours, webhooks are also signed').waitFor()
  await page.getByLabel('I have stored the secret').check()
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('button', { name: 'Expire the old secret now' }).click()
  await page.getByText('The old secret has expired.').waitFor()
  await page.setViewportSize({ width: 320, height: 900 })
  await check('webhooks-endpoint-narrow')
  await clickAndLoad(page, page.locator('.back a'))
  await check('webhooks-narrow')
})
