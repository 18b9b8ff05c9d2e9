// The API reference in a browser: accessibility in both color schemes and on a phone, samples, and links.
import t from 'tap'
import { startSite, takeScreenshots, violationsOf } from '../fixtures/servers/browser.ts'
import { untilDocsAreRendered } from '../fixtures/service/documentation.ts'

// axe checks 15,000 elements twice, which takes minutes.
t.setTimeout(900_000)

const site = await startSite(t)
await untilDocsAreRendered(site.url)

for (const [colorScheme, width] of [
  ['light', 1280],
  ['dark', 390],
] as const) {
  t.test(`the reference is accessible, ${colorScheme}, at ${width} px`, async (t) => {
    const page = await site.newPage(t, { colorScheme, viewport: { width, height: 800 } })
    const faults: string[] = []
    page.on('pageerror', (error) => faults.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(message.text())
    })
    page.on('request', (request) => {
      if (!request.url().startsWith(`${site.url}/`) && !request.url().startsWith('data:'))
        faults.push(`request to another origin: ${request.url()}`)
    })
    await page.goto('/docs/reference')
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
    await takeScreenshots(page, `docs-reference-${width}`)
    t.strictSame(await violationsOf(page), [])
    t.strictSame(faults, [])
  })
}

t.test('a language of samples that is chosen by keyboard applies to all samples', async (t) => {
  const page = await site.newPage(t)
  await page.goto('/docs/reference#createDebtor')
  const request = page
    .locator('.operation', { has: page.locator('#createDebtor') })
    .getByRole('tablist', { name: 'Request: A customer as an ERP knows it' })
  await request.getByRole('tab', { name: 'curl' }).focus()
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('ArrowRight')
  const python = request.getByRole('tab', { name: 'Python' })
  t.equal(await python.getAttribute('aria-selected'), 'true')
  t.equal(await python.evaluate((tab) => tab === document.activeElement), true)
  const shown = page.getByRole('tabpanel', { name: 'Python' }).first()
  t.ok((await shown.textContent())?.includes('requests.get('))
  await page.goto('/docs/reference#getInvoice')
  await page.reload()
  const selected = page.getByRole('tab', { name: 'Python', selected: true })
  t.equal(await page.getByRole('tab', { name: 'curl', selected: true }).count(), 0)
  t.ok((await selected.count()) >= 10)
})

t.test('a tab beside the operation shows the sample response of a status', async (t) => {
  const page = await site.newPage(t)
  await page.goto('/docs/reference#createPayment')
  const statuses = page.getByRole('tablist', { name: 'Response: Record a payment' })
  await statuses.getByRole('tab', { name: '423' }).click()
  const panel = page
    .locator('.operation', { has: page.locator('#createPayment') })
    .getByRole('tabpanel', { name: '423' })
  t.ok((await panel.textContent())?.includes('account_read_only'))
})

t.test('a link can lead to a field, and the contents mark the current operation', async (t) => {
  const page = await site.newPage(t)
  await page.goto('/docs/reference#Invoice.amount_due')
  t.equal(await page.locator('[id="Invoice.amount_due"]:target').count(), 1)
  await page.goto('/docs/reference#listMessages')
  const current = page.getByRole('navigation').locator('[aria-current="location"]')
  await current.getByText('Read the message log').waitFor()
})
