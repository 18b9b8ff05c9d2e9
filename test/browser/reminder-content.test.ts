// The content of reminders: how to pay, wording, sender and previews; also which notices an Admin receives.
import t from 'tap'
import type { Json } from '../fixtures/accounts/test-account.ts'
import { PNG } from '../fixtures/reminders/images.ts'
import { clickAndLoad, createPageCheck, startSite, tabTo } from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

// In a rehearsal, the backend sends no reminders. The test sends them with the CLI, as of a given time.
const site = await startSite(t, { REHEARSAL: 'on' })
const { url, system, accountId } = site
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

t.test('the page says that payment details are missing, and an Admin enters them', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  const check = createPageCheck(t, page)
  await page.getByText('Some reminders in EUR do not say how to pay.').waitFor()
  await page.goto('/settings/payment-details')
  await check('payment-details-missing')
  await clickAndLoad(page, page.getByRole('link', { name: 'Enter how to pay in EUR' }))
  t.equal(await page.getByLabel('Currency').inputValue(), 'EUR')
  await page.getByLabel('Account holder').fill('Acme Ltd')
  await page.getByLabel('IBAN or account number').fill('NL92 ABNA 0417 1643 00')
  await clickAndLoad(page, page.getByRole('button', { name: 'Save' }))
  await check('payment-details-fault')
  await page.getByLabel('IBAN or account number').fill('NL91 ABNA 0417 1643 00')
  await page.getByLabel('Payment link').fill('https://pay.acme.nl/')
  await clickAndLoad(page, page.getByRole('button', { name: 'Save' }))
  await page.getByText('NL91 ABNA 0417 1643 00').first().waitFor()
  await check('payment-details')
})

t.test(
  'the preview updates while an Admin types, without entries in the browser history',
  async (t) => {
    const page = await site.newPage(t, { user: 'ada@acme.example' })
    const check = createPageCheck(t, page)
    await page.goto('/settings/wording')
    await check('wordings')
    await clickAndLoad(page, page.getByRole('link', { name: /Default.*Firm, English/ }))
    const preview = page.frameLocator('.preview iframe:not(.loading)')
    await preview.getByText('R-7', { exact: true }).first().waitFor()
    const historyLength = await page.evaluate('history.length')
    await page.getByLabel('Greeting').fill('Good morning {customer},')
    await preview.getByText('Good morning Zoë & Söhne <b>GmbH</b>,').waitFor()
    await page.getByLabel('Before the invoice').fill('Your {money}, please.')
    await preview.getByText('{money}, which is not a variable').waitFor()
    await page.getByLabel('Before the invoice').fill('Please pay {amount} today.')
    await preview.getByText('Please pay €1,234.50 today.').waitFor()
    t.equal(await page.evaluate('history.length'), historyLength)
    await check('wording')
    await clickAndLoad(page, page.getByRole('button', { name: 'Send me a test' }))
    await page.getByText('The test mail is waiting').waitFor()
    t.equal(await page.getByLabel('Greeting').inputValue(), 'Good morning {customer},')
    await preview.getByText('Good morning Zoë & Söhne <b>GmbH</b>,').waitFor()
    await page.setViewportSize({ width: 320, height: 640 })
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.getByLabel('Subject').fill('Pay')
    await clickAndLoad(page, page.getByRole('button', { name: 'Save' }))
    await check('wording-fault')
    await page.getByLabel('Subject').fill('Please pay {invoices}')
    await clickAndLoad(page, page.getByRole('button', { name: 'Save' }))
    await page.getByRole('button', { name: 'Restore the default' }).waitFor()
    await preview.getByText('Please pay €1,234.50 today.').waitFor()
  },
)

t.test('an Admin chooses the sender’s name and a logo, also without scripts', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled: false })
  await page.goto('/settings/reminders')
  await clickAndLoad(page, page.getByRole('link', { name: 'Sender' }))
  await page.getByLabel('Name').fill('Acme Billing')
  await clickAndLoad(page, page.getByRole('button', { name: 'Save the name' }))
  const logo = { name: 'logo.svg', mimeType: 'image/svg+xml', buffer: Buffer.from('<svg/>') }
  await page.getByLabel('Image', { exact: true }).setInputFiles(logo)
  await clickAndLoad(page, page.getByRole('button', { name: 'Save the logo' }))
  await page.getByText('Logo must be a PNG or JPEG image').first().waitFor()
  await page
    .getByLabel('Image', { exact: true })
    .setInputFiles({ name: 'logo.png', mimeType: 'image/png', buffer: PNG })
  await clickAndLoad(page, page.getByRole('button', { name: 'Save the logo' }))
  await page.getByRole('button', { name: 'Remove the logo' }).waitFor()

  const shown = await site.newPage(t, { user: 'ada@acme.example' })
  const check = createPageCheck(t, shown)
  await shown.goto('/settings/sender')
  const mail = shown.frameLocator('.preview iframe')
  const picture = mail.getByRole('img', { name: 'Acme Billing' })
  await picture.waitFor()
  const frame = shown.frames().find((candidate) => candidate !== shown.mainFrame())
  const width = 'document.images[0].decode().then(() => document.images[0].naturalWidth)'
  t.equal(await frame?.evaluate(width), 320)
  await check('sender')
  await shown.getByLabel('Name').fill('x@y.nl')
  await clickAndLoad(shown, shown.getByRole('button', { name: 'Save the name' }))
  await check('sender-fault')
})

t.test('an Admin chooses by keyboard which notices are mailed', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  const check = createPageCheck(t, page)
  await page.goto('/settings/login-details')
  await check('login-details')
  await clickAndLoad(page, page.getByRole('link', { name: 'Choose notices by mail' }))
  const issued = page.getByLabel('An API key was issued')
  await tabTo(page, issued)
  await page.keyboard.press('Space')
  const loaded = page.waitForEvent('load')
  await page.keyboard.press('Enter')
  await loaded
  await page.getByText('Saved. The choice applies from the next notice on.').waitFor()
  t.equal(await page.getByLabel('An API key was issued').isChecked(), false)
  t.equal(await page.getByLabel('A customer replied').isChecked(), true)
  await check('notices')
})

t.test('without scripts, a button shows the preview', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled: false })
  await page.goto('/settings/wording/reminder-nl')
  await page.getByLabel('Greeting').fill('Dag {customer},')
  await page.getByRole('button', { name: 'Preview' }).click()
  const preview = page.frameLocator('.preview iframe:not(.loading)')
  await preview.getByText('Dag Zoë & Söhne <b>GmbH</b>,').waitFor()
  t.equal(await page.getByLabel('Greeting').inputValue(), 'Dag {customer},')
})

t.test('the page of an approval shows the whole mail without a scrollbar', async (t) => {
  for (const days of [0, 7, 14]) {
    const at = new Date(`${dayIn(days)}T10:00:00Z`)
    while (at.getUTCDay() % 6 === 0) at.setUTCDate(at.getUTCDate() + 1)
    await system.operator.cli('reminders', 'run', '--now', at.toISOString(), '--account', accountId)
  }
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  const check = createPageCheck(t, page)
  await page.goto('/settings/approvals')
  await clickAndLoad(page, page.getByRole('link', { name: 'Zoë & Söhne' }))
  await page.getByText('Please pay invoice R-7 – Acme Billing').first().waitFor()
  const mail = page.frameLocator('iframe.mail-html')
  await mail.getByText('Please pay €1,234.50 today.').waitFor()
  await mail.getByText('NL91 ABNA 0417 1643 00').first().waitFor()
  for (const width of [1280, 600, 390, 320]) {
    await page.setViewportSize({ width, height: 800 })
    const frame = page.frames().find((candidate) => candidate.url().endsWith('/html'))
    const empty = Number(
      await frame?.evaluate('innerHeight - document.body.getBoundingClientRect().height'),
    )
    const label = mail.getByRole('rowheader', { name: 'Reference' })
    t.ok(Number((await label.boundingBox())?.height) < 30, `the label is one line at ${width} px`)
    t.ok(empty >= 0 && empty < 250, `${empty} px are empty at ${width} px`)
  }
  await check('approval-whole')
})
