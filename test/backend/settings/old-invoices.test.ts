// Invoices that were past due when they were created: pages say that no reminder is sent about them, until an Admin
// resumes reminders about all of them.
import t, { type Test } from 'tap'
import { renderOldInvoicesHint } from '../../../backend/settings/reminders/old-invoices.ts'
import { startMoneySettings, textOf } from '../../fixtures/accounts/money-settings.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'
import { logIn, MEMBER } from '../../fixtures/service/settings.ts'

const OLD_INVOICE = { issue_date: '2026-01-01', due_date: '2026-01-31', chase_if_overdue: false }
const PATH = '/settings/old-invoices'

async function openWithOldInvoices(t: Test) {
  const settings = await startMoneySettings(t)
  const other = await settings.create('debtors', { name: 'Initech', email: 'ap@initech.example' })
  const invoices = [
    await settings.createInvoice(OLD_INVOICE),
    await settings.createInvoice({ ...OLD_INVOICE, currency: 'JPY', amount: 500 }),
    await settings.createInvoice({ ...OLD_INVOICE, debtor_id: other.id }),
  ]
  const chasingOf = async ({ id }: Json) =>
    (await settings.read(`invoices/${id}`))['chasing'] as Json
  return { ...settings, invoices, chasingOf }
}

t.test('old invoices are counted, and chased after an Admin has resumed reminders', async (t) => {
  const { ada, backend, invoices, chasingOf, audit } = await openWithOldInvoices(t)
  const hint = /3 invoices were past due when created\. No reminder is sent about them\./
  for (const path of ['/settings', '/settings/reminders']) {
    matches(t, textOf(await ada.page(path)), hint, path)
  }
  matches(t, (await ada.get('/settings')).json, { old_invoices: { count: 3, has_more: false } })
  t.strictSame((await ada.get(PATH)).json, {
    object: 'old_invoices',
    invoices: 3,
    customers: 2,
    has_more: false,
    due: [
      { currency: 'EUR', amount: 20_000 },
      { currency: 'JPY', amount: 500 },
    ],
  })
  matches(t, textOf(await ada.page(PATH)), /Send reminders about all old invoices/)

  const mia = await logIn(backend, MEMBER)
  t.notMatch(textOf(await mia.page(PATH)), /Send reminders about all old invoices/)
  matches(t, await mia.send('POST', `${PATH}/chase`, {}), { status: 403 })
  matches(t, await chasingOf(invoices[0] ?? {}), { status: 'stopped', blocked_reason: 'history' })

  const { json } = await ada.send('POST', `${PATH}/chase`, {})
  t.strictSame(json, { object: 'old_invoices_chased', chased: 3, complete: true })
  for (const invoice of invoices) {
    matches(t, await chasingOf(invoice), { status: 'active', blocked_reason: null })
  }
  t.equal((await audit()).filter((action) => action === 'debtor.invoices_resumed').length, 2)
  t.notMatch(textOf(await ada.page('/settings')), hint)
  matches(t, textOf(await ada.page(PATH)), /There are no old invoices\./)
})

// Regression: the page of a customer checked only the invoices that it shows, which are at most ten.
t.test(
  'the page of a customer offers to resume reminders about an invoice it does not show',
  async (t) => {
    const { ada, debtor, createInvoice } = await startMoneySettings(t)
    for (let day = 10; day < 21; day++) {
      await createInvoice({ issue_date: '2026-01-01', due_date: `2026-01-${day}` })
    }
    const path = `/settings/customers/${debtor.id}`
    t.notMatch(textOf(await ada.page(path)), /Resume these reminders/)
    const { id } = await createInvoice(OLD_INVOICE)
    const page = await ada.page(path)
    t.notMatch(page.text, id)
    matches(t, textOf(page), /Resume these reminders/)
  },
)

t.test('an invoice that is blocked for another reason stays blocked', async (t) => {
  const { ada, invoices, chasingOf } = await openWithOldInvoices(t)
  const [disputed, mistaken] = invoices
  await ada.send('POST', `/settings/invoices/${disputed?.id}/dispute`, { reason: 'Not delivered' })
  await ada.send('POST', `/settings/invoices/${mistaken?.id}/void`, { reason: 'A duplicate' })
  matches(t, (await ada.get(PATH)).json, { invoices: 1 })
  matches(t, (await ada.send('POST', `${PATH}/chase`, {})).json, { chased: 1 })
  matches(t, await chasingOf(mistaken ?? {}), { status: 'stopped' })
  matches(t, await chasingOf(disputed ?? {}), { blocked_reason: 'disputed' })
})

t.test('invoices of other accounts are neither shown nor chased', async (t) => {
  const { ada, backend, invoices, chasingOf } = await openWithOldInvoices(t)
  const other = await backend.createAccount()
  const key = await backend.issueKey(other.id)
  const body = { name: 'Umbrella', email: 'ap@umbrella.example' }
  const debtor = await backend.call(key, 'POST', '/api/v1/debtors', { body })
  const invoice = { debtor_id: debtor.json['id'], currency: 'EUR', amount: 700, ...OLD_INVOICE }
  const created = await backend.call(key, 'POST', '/api/v1/invoices', { body: invoice })
  t.equal(created.status, 201)
  matches(t, (await ada.get(PATH)).json, { invoices: invoices.length })
  await ada.send('POST', `${PATH}/chase`, {})
  const { json } = await backend.call(key, 'GET', `/api/v1/invoices/${created.json['id']}`)
  matches(t, json['chasing'], { blocked_reason: 'history' })
  matches(t, await chasingOf(invoices[0] ?? {}), { blocked_reason: null })
})

t.test(
  'the hint says how many old invoices there are, or that there are more than were counted',
  (t) => {
    const hintOf = (invoices: number, hasMore: boolean) =>
      renderOldInvoicesHint({ invoices, hasMore, customers: invoices, due: new Map() })?.text
    const one = />1 invoice was past due when created\. No reminder is sent about it\. </
    matches(t, hintOf(1, false), one)
    const many =
      />More than 1,000 invoices were past due when created\. No reminder is sent about them\. </
    matches(t, hintOf(1000, true), many)
    t.equal(hintOf(0, false), undefined)
    t.end()
  },
)
