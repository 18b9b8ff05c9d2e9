// Home, the first page after login, in an empty account and in an account to which customers owe money; and the lists.
import t from 'tap'
import type { Json } from '../fixtures/accounts/test-account.ts'
import { logIn, startSite, takeScreenshots, violationsOf } from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)
const { url, system, accountId } = site
let idempotencyKeys = 0

async function create(key: string, path: string, body: object): Promise<Json> {
  const headers = { 'idempotency-key': `home-${idempotencyKeys++}` }
  const response = await call(`${url}/api/v1/${path}`, { key, body, headers })
  if (response.status !== 201) throw new Error(response.text)
  return response.json
}

const dayIn = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)

t.test(
  'Home shows the first steps in an empty account, and later the amounts that customers owe',
  async (t) => {
    const page = await site.newPage(t)
    const faults: string[] = []
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(message.text())
    })
    const check = async (name: string) => {
      await takeScreenshots(page, name)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        t.strictSame(await violationsOf(page), [], `${name}: no violations, ${colorScheme}`)
      }
      await page.setViewportSize({ width: 320, height: 640 })
      const fits = await page.evaluate('document.documentElement.scrollWidth <= innerWidth')
      t.equal(fits, true, `${name}: no horizontal scrolling`)
      await page.setViewportSize({ width: 1280, height: 800 })
    }
    await logIn(page, 'ada@acme.example')
    t.equal(new URL(page.url()).pathname, '/settings')
    t.strictSame(await page.locator('.steps h2').allTextContents(), [
      'Issue an API key',
      'Create or import customers',
      'Review the reminder schedule',
    ])
    await check('home-empty')

    const { secret: key } = await system.operator.issueKey(accountId)
    const jansen = await create(key, 'debtors', { name: 'Jansen Bouw', email: 'ap@jansen.example' })
    const zoe = await create(key, 'debtors', { name: 'Café Zoë' })
    const owed = [
      [jansen, 100_000, 10],
      [jansen, 20_000, -12],
      [zoe, 3_000, -45],
      [zoe, 400, -75],
      [zoe, 50, -200],
    ] as const
    const invoices = []
    for (const [debtor, amount, days] of owed) {
      invoices.push(
        await create(key, 'invoices', {
          ...{ debtor_id: debtor.id, currency: 'EUR', amount },
          ...{ issue_date: dayIn(days - 30), due_date: dayIn(days) },
        }),
      )
    }
    await create(key, 'invoices', {
      ...{ debtor_id: jansen.id, currency: 'JPY', amount: 880_000 },
      ...{ issue_date: dayIn(-20), due_date: dayIn(-2) },
    })
    await create(key, 'payments', {
      ...{ invoice_id: invoices[1]?.id, currency: 'EUR', amount: 5_000, method: 'cheque' },
    })
    await page.reload()
    await page.getByRole('heading', { name: 'Owed in EUR' }).waitFor()
    const euro = page.getByRole('region', { name: 'Owed in EUR' })
    const rows = await euro.locator('.ages tbody tr').allTextContents()
    t.strictSame(
      rows.map((row) => row.replace(/\s+/g, ' ').trim()),
      [
        'Not due 1 invoice€1,000.00',
        '1–30 days 1 invoice€150.00',
        '31–60 days 1 invoice€30.00',
        '61–90 days 1 invoice€4.00',
        'Over 90 days 1 invoice€0.50',
      ],
    )
    const debtors = await euro.locator('.stacked-if-narrow tbody tr').allTextContents()
    t.strictSame(
      debtors.map((row) => row.replace(/\s+/g, ' ').trim()),
      ['Jansen Bouw €150.00€1,150.00', 'Café Zoë €34.50€34.50'],
    )
    await page.getByText('1 customer owes money and cannot be reached by e-mail.').waitFor()
    await page.getByRole('region', { name: 'Latest payments' }).getByText('Cheque').waitFor()
    await check('home')

    await euro.getByRole('link', { name: '31–60 days' }).click()
    await page.getByText('1 invoice · €30.00').waitFor()
    t.equal(await page.locator('tbody tr').count(), 1)
    await check('list-invoices-aged')
    await page.goto('/settings/customers')
    t.strictSame(await page.locator('tbody th a').allTextContents(), ['Café Zoë', 'Jansen Bouw'])
    await check('list-customers')
    await page.getByRole('link', { name: 'Name' }).click()
    t.equal(new URL(page.url()).search, '?view=active&sort=name')
    await page.goto('/settings/invoices?limit=2')
    await check('list-invoices')
    await page.getByRole('link', { name: 'Next' }).click()
    await page.getByRole('link', { name: 'Next' }).click()
    t.equal(await page.locator('tbody tr').count(), 2)
    await page.getByRole('link', { name: 'Previous' }).click()
    await page.getByRole('link', { name: 'Previous' }).click()
    t.equal(new URL(page.url()).search, '?view=unpaid&limit=2')
    await page.goto('/settings/payments')
    await check('list-payments')
    const downloading = page.waitForEvent('download')
    await page.getByRole('link', { name: 'CSV' }).click()
    const downloaded = (await downloading).suggestedFilename()
    t.ok(/^payments-\d{4}-\d\d-\d\d\.csv$/.test(downloaded), downloaded)
    await page.getByRole('searchbox', { name: 'Find customers' }).fill('zoë')
    await page.keyboard.press('Enter')
    await page.getByText('Results for “zoë”').waitFor()
    const found = page.getByRole('region', { name: 'Customers' })
    t.strictSame(await found.locator('tbody th a').allTextContents(), ['Café Zoë'])
    await check('search')
    t.strictSame(faults, [])
  },
)
