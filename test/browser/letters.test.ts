// What reminders say: how to pay, the wording with its preview, and the whole mail before it is approved.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { Json } from '../fixtures/books/books.ts'
import { follow, logIn, openOffice, photograph, violationsOf } from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'

// A browser on a busy machine is slow.
t.setTimeout(300_000)

// The engine stands still, and is run by hand as at an instant.
const office = await openOffice(t, { REHEARSAL: 'on' })
const { url, system, accountId } = office
const { secret: key } = await system.operator.issueKey(accountId)

async function create(path: string, body: Json): Promise<Json> {
  const headers = { 'idempotency-key': `test-${path}-${body['number']}` }
  const response = await call(`${url}/api/v1/${path}`, { key, body, headers })
  if (response.status !== 201) throw new Error(response.text)
  return response.json
}

const dayIn = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)

const debtor = await create('debtors', { name: 'Zoë & Söhne <b>GmbH</b>', email: 'ap@zoe.de' })
await create('invoices', {
  ...{ debtor_id: debtor['id'], number: 'R-7', currency: 'EUR', amount: 123_450 },
  ...{ issue_date: dayIn(-60), due_date: dayIn(-40), chase_if_overdue: true },
})

/** Looks at the page as it is, with axe and by photograph. */
function checking(t: Test, page: Page) {
  return async (name: string) => {
    await photograph(page, name)
    t.strictSame(await violationsOf(page), [], `${name}: no violations`)
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, name)
  }
}

t.test('an Admin enters how to pay, where the page says that it is missing', async (t) => {
  const context = await office.open()
  const page = await context.newPage()
  const check = checking(t, page)
  await logIn(page, 'ada@acme.example')
  await page.getByText('Reminders in EUR do not say how to pay.').waitFor()
  await page.goto('/settings/payment-details')
  await check('payment-details-missing')
  await follow(page, page.getByRole('link', { name: 'Enter how to pay in EUR' }))
  t.equal(await page.getByLabel('Currency').inputValue(), 'EUR')
  await page.getByLabel('Account holder').fill('Acme Ltd')
  await page.getByLabel('IBAN or account number').fill('NL92 ABNA 0417 1643 00')
  await follow(page, page.getByRole('button', { name: 'Save' }))
  await check('payment-details-fault')
  await page.getByLabel('IBAN or account number').fill('NL91 ABNA 0417 1643 00')
  await page.getByLabel('Payment link').fill('https://pay.acme.nl/')
  await follow(page, page.getByRole('button', { name: 'Save' }))
  await page.getByText('NL91 ABNA 0417 1643 00').first().waitFor()
  await check('payment-details')
  await context.close()
})

t.test(
  'the preview follows what an Admin types, and the history of the page does not',
  async (t) => {
    const context = await office.open()
    const page = await context.newPage()
    const check = checking(t, page)
    await logIn(page, 'ada@acme.example')
    await page.goto('/settings/wording')
    await check('wordings')
    await follow(page, page.getByRole('link', { name: /Default.*Firm, English/ }))
    const preview = page.frameLocator('.preview iframe:not(.loading)')
    await preview.getByText('R-7', { exact: true }).first().waitFor()
    const steps = await page.evaluate('history.length')
    await page.getByLabel('Greeting').fill('Good morning {customer},')
    await preview.getByText('Good morning Zoë & Söhne <b>GmbH</b>,').waitFor()
    await page.getByLabel('Before the invoice').fill('Your {money}, please.')
    await preview.getByText('{money}, which is not a variable').waitFor()
    await page.getByLabel('Before the invoice').fill('Please pay {amount} today.')
    await preview.getByText('Please pay €1,234.50 today.').waitFor()
    t.equal(await page.evaluate('history.length'), steps)
    await check('wording')
    await follow(page, page.getByRole('button', { name: 'Send me a test' }))
    await page.getByText('The test mail is on its way to you.').waitFor()
    t.equal(await page.getByLabel('Greeting').inputValue(), 'Good morning {customer},')
    await preview.getByText('Good morning Zoë & Söhne <b>GmbH</b>,').waitFor()
    await page.setViewportSize({ width: 320, height: 640 })
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.getByLabel('Subject').fill('Pay')
    await follow(page, page.getByRole('button', { name: 'Save' }))
    await check('wording-fault')
    await page.getByLabel('Subject').fill('Please pay {invoices}')
    await follow(page, page.getByRole('button', { name: 'Save' }))
    await page.getByRole('button', { name: 'Bring the default back' }).waitFor()
    await preview.getByText('Please pay €1,234.50 today.').waitFor()
    await context.close()
  },
)

t.test('without a script the preview is a press of a button away', async (t) => {
  const context = await office.open({ javaScriptEnabled: false })
  const page = await context.newPage()
  await page.goto('/settings')
  await page.getByLabel('E-mail').fill('ada@acme.example')
  await page.getByLabel('Password').fill('correct horse battery')
  await follow(page, page.getByRole('button', { name: 'Log in' }))
  await page.goto('/settings/wording/reminder-nl')
  await page.getByLabel('Greeting').fill('Dag {customer},')
  await page.getByRole('button', { name: 'Preview' }).click()
  const preview = page.frameLocator('.preview iframe:not(.loading)')
  await preview.getByText('Dag Zoë & Söhne <b>GmbH</b>,').waitFor()
  t.equal(await page.getByLabel('Greeting').inputValue(), 'Dag {customer},')
  await context.close()
})

t.test('an approval shows the whole mail, without scrolling in it', async (t) => {
  for (const days of [0, 7, 14]) {
    const at = new Date(`${dayIn(days)}T10:00:00Z`)
    while (at.getUTCDay() % 6 === 0) at.setUTCDate(at.getUTCDate() + 1)
    await system.operator.cli('reminders', 'run', '--now', at.toISOString(), '--account', accountId)
  }
  const context = await office.open()
  const page = await context.newPage()
  const check = checking(t, page)
  await logIn(page, 'ada@acme.example')
  await page.goto('/settings/approvals')
  await follow(page, page.getByRole('link', { name: 'Zoë & Söhne' }))
  await page.getByText('Please pay invoice R-7 – Acme <b>Ltd</b>').first().waitFor()
  const mail = page.frameLocator('iframe.letter-html')
  await mail.getByText('Please pay €1,234.50 today.').waitFor()
  await mail.getByText('NL91 ABNA 0417 1643 00').first().waitFor()
  for (const width of [1280, 320]) {
    await page.setViewportSize({ width, height: 800 })
    const frame = page.frames().find((candidate) => candidate.url().endsWith('/html'))
    const hidden = await frame?.evaluate('document.documentElement.scrollHeight - innerHeight')
    t.ok(Number(hidden) <= 0, `${hidden} px are hidden at ${width} px`)
  }
  await check('approval-whole')
  await context.close()
})
