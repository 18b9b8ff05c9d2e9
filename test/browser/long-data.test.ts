// Long names, large amounts, and names that are written from right to left.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { Json } from '../fixtures/accounts/test-account.ts'
import { createPageCheck, startSite } from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)
const { url, system, accountId } = site
const { secret: key } = await system.operator.issueKey(accountId)

async function create(path: string, body: object): Promise<Json> {
  const headers = { 'idempotency-key': randomUUID() }
  const response = await call(`${url}/api/v1/${path}`, { key, body, headers })
  if (response.status !== 201) throw new Error(response.text)
  return response.json
}

t.test('pages with long names and large amounts are not wider than the window', async (t) => {
  // Regression: a long name made Home twice as wide as the window. On a phone, large amounts, the filters of the
  // message log, and the long number of an invoice to which a payment is allocated made the pages too wide.
  const names = [
    'Rechtsschutzversicherungsgesellschaft'.repeat(5),
    'A'.repeat(200),
    '👩‍👩‍👧‍👦🎉'.repeat(20),
  ]
  const invoices: Json[] = []
  for (const [n, name] of names.entries()) {
    const debtor = await create('debtors', { name, external_id: `C-${n}` })
    for (const currency of ['EUR', 'IDR', 'KWD', 'USD', 'JPY']) {
      const invoice = await create('invoices', {
        ...{ debtor_id: debtor.id, currency, number: `${currency}-${n}-`.padEnd(64, 'X') },
        ...{ amount: 999_999_999_999, issue_date: '2026-01-01', due_date: '2026-02-01' },
      })
      invoices.push(invoice)
    }
  }
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  const check = createPageCheck(t, page)
  for (const [name, path] of [
    ['home', ''],
    ['customers', '/customers'],
    ['customer', `/customers/${invoices[0]?.debtor_id}`],
    ['invoices', '/invoices'],
    ['invoice', `/invoices/${invoices[0]?.id}`],
    ['payment', `/payments/new?invoice_id=${invoices[0]?.id}`],
    ['messages', '/messages'],
  ]) {
    await page.goto(`/settings${path}`)
    const fits = await page.evaluate('document.documentElement.scrollWidth <= innerWidth')
    t.equal(fits, true, `${name}: no horizontal scrolling on a desktop`)
    await check(`long-${name}`)
  }
})

t.test('on a desktop, the list of invoices is not wider than the page', async (t) => {
  // Regression: with a badge of each kind and amounts in a currency without a sign, the table protruded.
  const debtor = await create('debtors', { name: 'Umbrella Trading Co.' })
  const invoice = await create('invoices', {
    ...{ debtor_id: debtor.id, number: 'W-000001', currency: 'KWD', amount: 1_250_750 },
    ...{ issue_date: '2026-09-01', due_date: '2026-10-01' },
  })
  await create('payments', { invoice_id: invoice.id, currency: 'KWD', amount: 750 })
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.setViewportSize({ width: 1440, height: 900 })
  await page.goto(`/settings/invoices?debtor_id=${debtor.id}`)
  const fits = await page.evaluate(
    `document.querySelector('table').offsetWidth <= document.querySelector('.tabs').offsetWidth`,
  )
  t.equal(fits, true)
})

t.test('on a tablet, the amounts on Home are inside their cards', async (t) => {
  // Regression: the cards were so narrow that the amounts by age were cut off, or stood outside. The amounts are those
  // of the first test.
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.setViewportSize({ width: 768, height: 1024 })
  await page.goto('/settings')
  t.ok((await page.locator('main .due table').count()) > 0)
  const outside = await page.evaluate(`[...document.querySelectorAll('main .due table')]
    .filter((table) => {
      const card = table.closest('.card').getBoundingClientRect()
      return table.getBoundingClientRect().right > card.right
    })
    .map((table) => table.caption.textContent)`)
  t.strictSame(outside, [])
})

t.test('on a phone, a label is on the same line as its field', async (t) => {
  // Regression: labels of the filters were at the end of a line, and their fields on the next one.
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.setViewportSize({ width: 320, height: 640 })
  for (const path of ['invoices', 'payments', 'messages', 'webhook-deliveries', 'audit-log']) {
    await page.goto(`/settings/${path}`)
    t.ok((await page.locator('main form label').count()) > 0, `${path} has labels`)
    const separated = await page.evaluate(`[...document.querySelectorAll('main form label')]
      .filter(({ control }) => control !== null)
      .filter((label) => {
        const { left, top, bottom } = label.getBoundingClientRect()
        const field = label.control.getBoundingClientRect()
        return field.left < left || field.top > bottom || field.bottom < top
      })
      .map((label) => label.textContent)`)
    t.strictSame(separated, [], path)
  }
})

t.test('on a phone, the word that names a cell is not broken', async (t) => {
  // Regression: the last letter of “Permissions” was on a line of its own.
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.setViewportSize({ width: 360, height: 640 })
  await page.goto('/settings/api-keys')
  const labels = await page.evaluate(`[...document.querySelectorAll('.records tbody td')]
    .filter(({ dataset }) => !dataset.label.includes(' '))
    .map((cell) => {
      const { height, lineHeight } = getComputedStyle(cell, '::before')
      return [cell.dataset.label, Math.round(parseFloat(height) / parseFloat(lineHeight))]
    })`)
  t.strictSame(
    new Map(labels as [string, number][]),
    new Map([
      ['Permissions', 1],
      ['Prefix', 1],
      ['Status', 1],
      ['Actions', 1],
    ]),
  )
})

t.test('on paper, a list has no navigation, fields or buttons', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.emulateMedia({ media: 'print' })
  for (const path of ['customers', 'invoices', 'payments', 'messages']) {
    await page.goto(`/settings/${path}`)
    t.ok((await page.locator('nav').count()) > 0, `${path} has navigation`)
    const shown = await page.evaluate(`[...document.querySelectorAll('nav, input, button, .button')]
      .filter((element) => element.checkVisibility())
      .map((element) => element.outerHTML)`)
    t.strictSame(shown, [], path)
  }
})

t.test('with forced colors, only the current page and the chosen view are marked', async (t) => {
  // Regression: each link of the navigation was underlined like the current page.
  const page = await site.newPage(t, { user: 'ada@acme.example', forcedColors: 'active' })
  await page.goto('/settings/invoices?view=overdue')
  const colorsOf = async (name: string, property: string) => {
    const link = page.getByRole('link', { name, exact: true }).first()
    return link.evaluate(
      (element, property) => getComputedStyle(element).getPropertyValue(property),
      property,
    )
  }
  const background = await page.evaluate('getComputedStyle(document.body).backgroundColor')
  t.equal(await colorsOf('Reminders', 'border-bottom-color'), background)
  t.not(await colorsOf('Customers', 'border-bottom-color'), background)
  t.not(await colorsOf('Overdue', 'background-color'), await colorsOf('Unpaid', 'background-color'))
})

t.test('a name with bidi controls does not reverse the text after it', async (t) => {
  // Regression: the external id after such a name was reversed.
  const { secret: key } = await system.operator.issueKey(accountId)
  const body = { name: 'Bidi \u202etest', external_id: 'BIDI-1' }
  t.equal((await call(`${url}/api/v1/debtors`, { key, body })).status, 201)
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.goto('/settings/customers?q=bidi')
  const id = page.getByRole('rowheader').getByText('BIDI-1')
  const lefts = await id.evaluate((element) =>
    [0, 1, 2, 3].map((at) => {
      const range = element.ownerDocument.createRange()
      range.setStart(element.firstChild ?? element, at)
      range.setEnd(element.firstChild ?? element, at + 1)
      return range.getBoundingClientRect().left
    }),
  )
  t.strictSame(
    lefts,
    lefts.toSorted((a, b) => a - b),
    'from left to right',
  )
})
