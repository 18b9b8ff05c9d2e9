// The pages of customers, invoices, payments and reminders in a browser.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { Json } from '../fixtures/accounts/test-account.ts'
import {
  clickAndLoad,
  logIn,
  startSite,
  takeScreenshots,
  violationsOf,
} from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

// In a rehearsal, the backend sends no reminders. The test sends them with the CLI, as of a given time.
const site = await startSite(t, { REHEARSAL: 'on' })
const { url, system, accountId } = site
const { secret: key } = await system.operator.issueKey(accountId)
let idempotencyKeys = 0

async function create(path: string, body: object): Promise<Json> {
  const headers = { 'idempotency-key': `test-${idempotencyKeys++}` }
  const response = await call(`${url}/api/v1/${path}`, { key, body, headers })
  if (response.status !== 201) throw new Error(response.text)
  return response.json
}

const invoiceOf = (debtor: Json, amount: number, days: number, fields: object = {}) =>
  create('invoices', {
    ...{ debtor_id: debtor.id, currency: 'EUR', amount },
    ...{ issue_date: dayIn(days - 30), due_date: dayIn(days), ...fields },
  })

function dayIn(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)
}

/** Schedules and sends reminders as of 10:00 UTC on the first business day that is at least `days` days from now. */
async function rehearse(days: number): Promise<void> {
  const at = new Date(`${dayIn(days)}T10:00:00Z`)
  while (at.getUTCDay() % 6 === 0) at.setUTCDate(at.getUTCDate() + 1)
  await system.operator.cli('reminders', 'run', '--now', at.toISOString(), '--account', accountId)
}

/** Returns a function that checks the page in its present state with axe and for horizontal scrolling. */
function createQuickPageCheck(t: Test, page: Page) {
  return async (name: string) => {
    await takeScreenshots(page, name)
    t.strictSame(await violationsOf(page), [], `${name}: no violations`)
    const fits = await page.evaluate('document.documentElement.scrollWidth <= innerWidth')
    t.equal(fits, true, `${name}: no horizontal scrolling`)
  }
}

t.test(
  'an Admin finds, changes and pauses a customer, and performs actions on its invoices',
  async (t) => {
    const page = await site.newPage(t)
    const check = createQuickPageCheck(t, page)
    await logIn(page, 'ada@acme.example')
    await page.goto('/settings/customers')
    await page.getByText('There are no customers yet.').waitFor()
    await check('customers-none')

    const jansen = await create('debtors', {
      ...{ name: 'Jansen Bouw B.V.', email: 'ap@jansen.example', language: 'nl' },
      address: { line1: 'Oudegracht 1', postal_code: '3511 AA', city: 'Utrecht', country: 'NL' },
    })
    const late = await invoiceOf(jansen, 123_450, -12)
    await invoiceOf(jansen, 9_900, 20)
    await invoiceOf(jansen, 880_000, -2, { currency: 'JPY' })
    const draft = await invoiceOf(jansen, 50_000, 30, { status: 'draft' })
    const payment = await create('payments', {
      ...{ invoice_id: late.id, currency: 'EUR', amount: 23_450 },
      ...{ method: 'bank_transfer', reference: 'INV 1, part' },
    })
    await create('debtors', { name: 'Bakker & Zonen <script>' })
    await page.reload()
    await check('customers')
    await page.getByLabel('Search customers').fill('bouw')
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    t.equal(await page.getByRole('row').count(), 2)
    await page.getByRole('link', { name: 'Jansen Bouw B.V.' }).click()
    await page.getByRole('heading', { name: 'Jansen Bouw B.V.' }).waitFor()
    await check('customer')

    await page.getByRole('link', { name: 'Change customer' }).click()
    await page.getByLabel('E-mail').fill('nobody')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('E-mail must be one e-mail address.').waitFor()
    await check('customer-form-fault')
    await page.getByLabel('E-mail').fill('facturen@jansen.example')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Customer changed.').waitFor()

    await page.getByText('Pause reminders…').click()
    await page.getByRole('button', { name: 'Pause reminders', exact: true }).click()
    await page.getByRole('alert').getByText('Enter a reason.').waitFor()
    await check('customer-pause-fault')
    await page.getByLabel('Reason').fill('A payment plan was agreed')
    await page.getByLabel('Until').fill(dayIn(30))
    await page.getByRole('button', { name: 'Pause reminders', exact: true }).click()
    await page
      .getByText('Reminders paused. No reminder is sent to this customer during the pause.')
      .waitFor()
    await check('customer-paused')
    await page.getByRole('button', { name: 'Resume reminders', exact: true }).click()
    await page.getByText('Reminders resumed.').waitFor()

    await page.getByRole('link', { name: late.number }).click()
    await page.getByText('Record a dispute…').click()
    await page.getByRole('dialog').getByLabel('Reason').fill('Two windows are broken')
    await check('invoice-dispute')
    await page.getByRole('button', { name: 'Record a dispute', exact: true }).click()
    await page.getByText('Blocked: the invoice is disputed').waitFor()
    await check('invoice-disputed')
    await page.goto(`/settings/invoices/${draft.id}`)
    await page.getByRole('button', { name: 'Finalize…' }).click()
    await page.getByRole('dialog').getByText('This cannot be undone.').waitFor()
    await check('invoice-finalise')
    await page.getByRole('button', { name: 'Finalize', exact: true }).click()
    await page.getByText('Invoice finalized. The customer now owes it.').waitFor()
    await page.getByText('Void…').click()
    await page.getByRole('dialog').getByLabel('Reason').fill('Sent twice')
    await page.getByRole('button', { name: 'Void', exact: true }).click()
    await page.getByText('The invoice is void.').waitFor()

    await page.goto(`/settings/payments/${payment.id}`)
    await page.getByText('Reverse…').click()
    await check('payment-reverse')
    await page.getByRole('alertdialog').getByLabel('Reason').fill('It bounced')
    await page.getByRole('button', { name: 'Reverse payment' }).click()
    await page.getByText('Payment reversed. The invoices that it paid are owed again.').waitFor()
    await check('payment-reversed')
    await page.goto('/settings/invoices')
    await check('invoices')
    await page.goto('/settings/payments')
    await check('payments')
  },
)

t.test('an Admin previews, approves and rejects reminders, and stops all of them', async (t) => {
  const deVries = await create('debtors', {
    ...{ name: 'De Vries Installatie', email: 'crediteuren@devries-installatie.nl' },
    language: 'nl',
  })
  const smit = await create('debtors', { name: 'Smit & Co', email: 'ap@smit-en-co.nl' })
  await invoiceOf(deVries, 480_000, -25)
  await invoiceOf(smit, 129_900, -25)
  for (const days of [-21, -14, -3]) await rehearse(days)
  for (const [name, amount, days] of [
    ['Hoveniersbedrijf Groen', 62_500, -1],
    ['Kapsalon Knip', 8_900, -2],
    ['Boekhandel Het Blad', 23_450, -8],
    ['Garage Rijk', 310_000, 2],
  ] as const) {
    const email = `ap@${name.toLowerCase().replaceAll(' ', '-')}.nl`
    await invoiceOf(await create('debtors', { name, email }), amount, days)
  }
  const page = await site.newPage(t)
  const check = createQuickPageCheck(t, page)
  await logIn(page, 'ada@acme.example')
  await page.getByRole('link', { name: 'Reminders' }).click()
  await page.getByRole('heading', { name: 'Blocked' }).waitFor()
  await page.locator('details.blocked summary').first().click()
  await check('reminders')
  await page.locator('.day.has-reminders a').first().click()
  await page.getByRole('link', { name: 'All days' }).waitFor()
  await check('reminders-day')

  await clickAndLoad(page, page.getByRole('link', { name: 'Approvals 2' }))
  await check('approvals')
  await page.getByRole('link', { name: 'De Vries Installatie' }).click()
  const mail = page.frameLocator('iframe')
  await mail.locator('body').getByText('INV-').first().waitFor()
  await page.getByText('As plain text').click()
  await check('approval')
  await page.getByRole('button', { name: 'Approve and send…' }).click()
  await page.getByRole('dialog').getByText('crediteuren@devries-installatie.nl').waitFor()
  await check('approval-approve')
  await page.getByRole('button', { name: 'Approve and send', exact: true }).click()
  await page.getByText('Approved. The reminder is').waitFor()
  await page.getByRole('link', { name: 'Smit & Co' }).click()
  await page.getByText('Reject…').click()
  await page.getByRole('button', { name: 'Reject', exact: true }).click()
  await page.getByRole('alert').getByText('Enter a reason.').waitFor()
  await check('approval-reject-fault')
  await page.getByLabel('Reason').fill('We agreed on a plan by telephone')
  await page.getByRole('button', { name: 'Reject', exact: true }).click()
  await page.getByText('No reminder waits for approval.').waitFor()
  await check('approvals-decided')

  await page.getByRole('link', { name: 'Log', exact: true }).click()
  await page.getByLabel('Status').selectOption('Not sent')
  await page.getByRole('button', { name: 'Filter' }).click()
  await page.getByRole('cell', { name: 'the reminder was rejected' }).waitFor()
  await check('log')
  await clickAndLoad(page, page.getByRole('link', { name: 'Firm reminder' }))
  await check('message')

  await page.getByRole('link', { name: 'Reminders' }).click()
  await clickAndLoad(page, page.getByRole('link', { name: 'Schedule' }))
  await check('schedule')
  await page.getByLabel('Firm').fill('9')
  await page.getByLabel('Holidays').fill('2026-12-25\nBoxing day')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('alert').waitFor()
  await check('schedule-faults')

  await page.goto('/settings/reminders')
  await page.getByRole('button', { name: 'Stop all reminders' }).click()
  const dialog = page.getByRole('alertdialog')
  await dialog.getByLabel('Reason').fill('The amounts of the last import are wrong')
  await check('stop-dialog')
  await dialog.getByRole('button', { name: 'Stop all reminders' }).click()
  await page.getByRole('heading', { name: 'Reminders of your account are stopped' }).waitFor()
  await check('stopped')
  await page.goto('/settings/customers')
  await page.getByRole('region', { name: 'Notice' }).getByText('The amounts of the last').waitFor()
  await check('customers-stopped')
  await page.goto('/settings/reminders')
  await check('reminders-stopped')
  await page.getByRole('link', { name: 'Details of the kill switch' }).click()
  await page.getByRole('button', { name: 'Resume reminders' }).click()
  await page.getByText('Reminders resumed. Reminders that were waiting').waitFor()
  t.equal(await page.getByRole('region', { name: 'Notice' }).count(), 0)
  await system.operator.setStatus(accountId, 'suspended')
  await page.goto('/settings/api-keys')
  await page.getByText('This account is read-only.').waitFor()
  await check('read-only')
  await system.operator.setStatus(accountId, 'active')
})

t.test('without scripts, a Member reads the reminders and an Admin stops them', async (t) => {
  const member = await site.newPage(t, { user: 'mia@acme.example', javaScriptEnabled: false })
  await member.getByRole('link', { name: 'Reminders' }).click()
  t.equal(await member.getByText('Stop all reminders').count(), 0)
  await takeScreenshots(member, 'member-reminders')
  await member.getByRole('button', { name: 'Log out' }).click()
  const page = await member.context().newPage()
  await logIn(page, 'ada@acme.example')
  await page.getByRole('link', { name: 'Reminders' }).click()
  await page.getByRole('link', { name: 'Stop all reminders' }).click()
  await page.getByRole('button', { name: 'Stop all reminders' }).click()
  await page.getByText('Enter a reason.').first().waitFor()
  await takeScreenshots(page, 'stop-without-script')
  await page.getByLabel('Reason').fill('A rehearsal')
  await page.getByRole('button', { name: 'Stop all reminders' }).click()
  await page.getByText('Reminders are stopped.').first().waitFor()
  await page.getByRole('button', { name: 'Resume reminders' }).click()
  await page.getByText('Reminders resumed. Reminders that were waiting').waitFor()
})
