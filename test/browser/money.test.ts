// An Admin enters customers, invoices, payments and credits; a payment also by keyboard alone, without scripts.
import t from 'tap'
import type { Json } from '../fixtures/accounts/test-account.ts'
import { clickAndLoad, createPageCheck, startSite, tabTo } from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)
const { url, system, accountId } = site
const { secret: key } = await system.operator.issueKey(accountId)

async function create(path: string, body: object): Promise<Json> {
  const headers = { 'idempotency-key': crypto.randomUUID() }
  const response = await call(`${url}/api/v1/${path}`, { key, body, headers })
  if (response.status !== 201) throw new Error(response.text)
  return response.json
}

const read = async (path: string) => (await call(`${url}/api/v1/${path}`, { key })).json

function dayIn(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)
}

const invoiceOf = (debtor: Json, amount: number, days: number) =>
  create('invoices', {
    ...{ debtor_id: debtor.id, currency: 'EUR', amount },
    ...{ issue_date: dayIn(days - 30), due_date: dayIn(days) },
  })

t.test(
  'a payment is allocated to two invoices and then reallocated, and an invoice is credited',
  async (t) => {
    const page = await site.newPage(t, { user: 'ada@acme.example' })
    const check = createPageCheck(t, page)
    const jansen = await create('debtors', { name: 'Jansen Bouw B.V.', email: 'ap@jansen.example' })
    const late = await invoiceOf(jansen, 125_000, -20)
    const later = await invoiceOf(jansen, 48_000, 10)

    await page.goto('/settings/payments/new')
    await check('payment-pick')
    await clickAndLoad(page, page.getByRole('link', { name: 'Jansen Bouw B.V.' }))
    await check('payment-form')
    await page.getByLabel('Amount in EUR').fill('1,400.00')
    await page.getByLabel('Method').selectOption('Cheque')
    await page.getByLabel('Reference').fill('Cheque 004417')
    await page.getByLabel('These invoices').check()
    await page.getByLabel(`Amount for ${late.number}`).fill('1300')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByRole('alert').getByText('Only €1,250.00 is due on').waitFor()
    await check('payment-form-wrong')
    await page.getByLabel(`Amount for ${late.number}`).fill('1250.00')
    await page.getByLabel(`Amount for ${later.number}`).fill('100')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByText('€50.00 more is on account').waitFor()
    await check('payment-preview')
    await page.getByRole('button', { name: 'Record payment' }).click()
    await page.getByText('Payment recorded.').waitFor()
    await check('payment-recorded')

    await page
      .getByRole('link', { name: `Take back… from ${later.number}` })
      .or(page.getByRole('button', { name: `Take back… from ${later.number}` }))
      .click()
    await page.getByRole('alertdialog').getByText('€100.00 more is on account').waitFor()
    await check('payment-take-back')
    await page.getByRole('alertdialog').getByLabel('Reason').fill('It was for the fence')
    await page.getByRole('button', { name: 'Take back', exact: true }).click()
    await page.getByText('Allocation taken back.').waitFor()
    t.equal(await page.locator('dialog').count(), 0, 'the page itself shows the message')
    await page.getByRole('link', { name: 'Allocate €150.00' }).click()
    await check('payment-allocate')
    await page.getByRole('button', { name: 'Preview' }).click()
    await check('payment-allocate-preview')
    await page.getByRole('button', { name: 'Allocate' }).click()
    await page.getByText('Money allocated.').waitFor()
    await check('payment-allocated')
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText('Allocation taken back.').waitFor()
    t.equal((await read(`invoices/${later.id}`)).amount_paid, 0)
    await page.getByRole('link', { name: 'Allocate €150.00' }).click()
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByRole('button', { name: 'Allocate' }).click()
    await page.getByText('Money allocated.').waitFor()
    const { amount_paid: paid } = await read(`invoices/${later.id}`)
    t.equal(paid, 15_000)

    await page.goto(`/settings/invoices/${later.id}`)
    await check('invoice-partly-paid')
    await clickAndLoad(page, page.getByRole('link', { name: 'Credit' }))
    await check('credit-form')
    await page.getByLabel('Amount in EUR').fill('30')
    await page.getByLabel('Reason').fill('Two hours were billed twice')
    await page.getByRole('button', { name: 'Preview' }).click()
    await check('credit-preview')
    await page.getByRole('button', { name: 'Credit' }).click()
    await page.getByText('Credit recorded.').waitFor()
    const { amount_due: due } = await read(`invoices/${later.id}`)
    t.equal(due, 30_000)
    await page
      .getByRole('row', { name: /Credited an invoice Two hours were billed twice/ })
      .waitFor()
    await check('invoice-credited')
    await page.goto('/settings/payments')
    await check('payments')
  },
)

t.test('an Admin adds a customer, enters an invoice, and changes the invoice', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  const check = createPageCheck(t, page)
  await page.goto('/settings/customers/new')
  await page.getByLabel('Name', { exact: true }).fill('Bakkerij De Zon')
  await page.getByLabel('E-mail').fill('nowhere')
  await page.getByRole('button', { name: 'Add customer' }).click()
  await page.getByRole('alert').getByText('E-mail must be').waitFor()
  await check('customer-new')
  await page.getByLabel('E-mail').fill('ap@dezon.example')
  await page.getByRole('button', { name: 'Add customer' }).click()
  await page.getByText('Customer added.').waitFor()
  await clickAndLoad(page, page.getByRole('link', { name: 'Enter an invoice' }))
  await page.getByLabel('Amount, including tax').fill('0,500')
  await page.getByRole('button', { name: 'Enter invoice' }).click()
  await page.getByRole('alert').getByText('must be a number such as 1234.50').waitFor()
  await check('invoice-new')
  await page.getByLabel('Amount, including tax').fill('12,50')
  await page.getByRole('button', { name: 'Enter invoice' }).click()
  await page.getByText('Invoice entered.').waitFor()
  await clickAndLoad(page, page.getByRole('link', { name: 'Change' }))
  await check('invoice-edit')
  await page.getByLabel('Purchase order').fill('PO-7')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Invoice changed.').waitFor()
})

t.test('a payment is recorded by keyboard alone, without scripts', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled: false })
  const debtor = await create('debtors', { name: 'Globex', email: 'ap@globex.example' })
  const { id } = await invoiceOf(debtor, 10_000, -3)
  await page.goto(`/settings/payments/new?invoice_id=${id}`)
  await tabTo(page, page.getByLabel('Amount in EUR'))
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Record this payment?' }).waitFor()
  await tabTo(page, page.getByRole('button', { name: 'Record payment' }))
  await page.keyboard.press('Enter')
  await page.getByText('Payment recorded.').waitFor()
  const { status } = await read(`invoices/${id}`)
  t.equal(status, 'paid')
})
