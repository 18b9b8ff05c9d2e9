// After an action that can be undone, the page has an Undo button, which works without scripts.
import t from 'tap'
import {
  formOf,
  PAST_DUE,
  startMoneySettings,
  submit,
} from '../../fixtures/accounts/money-settings.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import type { Response } from '../../fixtures/service/backend.ts'
import { MEMBER } from '../../fixtures/service/settings.ts'

type MoneySettings = Awaited<ReturnType<typeof startMoneySettings>>

/** Submits the Undo form of the page that follows an action. */
async function undo(settings: MoneySettings, page: string): Promise<Response> {
  const after = await settings.ada.page(page)
  const action = /<form method="post" action="([^"]+)" class="undo"/.exec(after.text)?.[1] ?? ''
  const fields = formOf(after, action)
  t.notMatch((await settings.ada.page(page)).text, /class="undo"/, 'the button is shown once')
  return submit(settings, settings.ada, action, fields)
}

t.test('undo restores an archived customer, and archives a restored customer again', async (t) => {
  const settings = await startMoneySettings(t)
  const path = `/settings/customers/${settings.debtor.id}`
  const status = async () => (await settings.read(`debtors/${settings.debtor.id}`)).status
  await settings.ada.submit(`${path}/archive`, {})
  matches(t, await undo(settings, path), { status: 303 })
  t.equal(await status(), 'active')
  matches(t, await undo(settings, path), { status: 303 })
  t.equal(await status(), 'archived')
})

t.test('undo restores a pause that was ended, with its reason and its last day', async (t) => {
  const settings = await startMoneySettings(t)
  const path = `/settings/customers/${settings.debtor.id}`
  await settings.ada.submit(`${path}/pause`, { reason: 'A plan', until: '2027-01-04' })
  const paused = (await settings.read(`debtors/${settings.debtor.id}`)).chasing
  await settings.ada.submit(`${path}/resume`, {})
  await undo(settings, path)
  t.strictSame((await settings.read(`debtors/${settings.debtor.id}`)).chasing, paused)
  await settings.ada.submit(`${path}/archive`, {})
  const after = await settings.ada.page(path)
  t.notMatch(
    after.text,
    /class="undo"/,
    'archiving a paused customer cannot be undone, because the pause would be lost',
  )
})

t.test('an allocation, and the taking back of an allocation, can be undone once', async (t) => {
  const settings = await startMoneySettings(t)
  const invoice = await settings.createInvoice(PAST_DUE)
  const payment = await settings.payOnAccount(4000)
  const path = `/settings/payments/${payment.id}`
  const due = async () => (await settings.read(`invoices/${invoice.id}`)).amount_due
  const preview = await submit(settings, settings.ada, `${path}/allocate/preview`, [
    ['allocations/invoice_id', invoice.id],
    ['allocations/amount', '40.00'],
  ])
  await submit(settings, settings.ada, `${path}/allocate`, formOf(preview, `${path}/allocate`))
  t.equal(await due(), 6000)
  const after = await settings.ada.page(path)
  const fields = formOf(after, `${path}/undo-allocation`)
  const clicks = await Promise.all(
    [1, 2].map(() => submit(settings, settings.ada, `${path}/undo-allocation`, fields)),
  )
  t.strictSame(
    clicks.map(({ status }) => status),
    [303, 303],
  )
  t.equal(await due(), 10_000)
  const allocations = [{ invoice_id: invoice.id, amount: 4000 }]
  await settings.ada.send('POST', `${path}/allocate`, { allocations, idempotency_key: 'again' })
  await settings.ada.submit(`${path}/take-back`, { invoice_id: invoice.id, reason: 'Wrong one' })
  t.equal(await due(), 10_000)
  matches(t, await undo(settings, path), { status: 303 })
  t.equal(await due(), 6000)
  const actions = (await settings.audit()).filter((action) => action.startsWith('payment.'))
  t.strictSame(actions, [
    ...['payment.allocated', 'payment.allocation_taken_back', 'payment.allocated'],
    ...['payment.allocation_taken_back', 'payment.allocated'],
  ])
})

t.test('undo is rejected if more was allocated to the invoice in the meantime', async (t) => {
  const settings = await startMoneySettings(t)
  const invoice = await settings.createInvoice(PAST_DUE)
  const payment = await settings.payOnAccount(4000)
  const path = `/settings/payments/${payment.id}`
  const preview = await submit(settings, settings.ada, `${path}/allocate/preview`, [
    ['allocations/invoice_id', invoice.id],
    ['allocations/amount', '10.00'],
  ])
  await submit(settings, settings.ada, `${path}/allocate`, formOf(preview, `${path}/allocate`))
  const fields = formOf(await settings.ada.page(path), `${path}/undo-allocation`)
  const allocations = [{ invoice_id: invoice.id, amount: 500 }]
  await settings.ada.send('POST', `${path}/allocate`, { allocations, idempotency_key: 'more' })
  t.equal((await submit(settings, settings.ada, `${path}/undo-allocation`, fields)).status, 422)
  t.equal((await settings.read(`invoices/${invoice.id}`)).amount_due, 8500)
})

t.test('disputes and deactivations can be undone; pages say what cannot be undone', async (t) => {
  const settings = await startMoneySettings(t)
  const invoice = await settings.createInvoice()
  const path = `/settings/invoices/${invoice.id}`
  const blocked = async () => (await settings.read(`invoices/${invoice.id}`)).chasing.blocked_reason
  await settings.ada.submit(`${path}/dispute`, { reason: 'Wrong price' })
  matches(t, await undo(settings, path), { status: 303 })
  t.equal(await blocked(), null)
  const { data } = (await settings.ada.get('/settings/people')).json as {
    data?: { id: string; email: string }[]
  }
  const mia = data?.find(({ email }) => email === MEMBER)
  t.ok(mia)
  if (mia !== undefined) {
    await settings.ada.submit(`/settings/people/${mia.id}/deactivate`, {})
    matches(t, await undo(settings, '/settings/people'), { status: 303 })
  }
  const page = await settings.ada.page(path)
  t.equal(page.text.match(/This cannot be undone/g)?.length, 2, 'voiding and writing off are final')
})

t.test(
  'after a dispute, an earlier block of reminders applies again, and the page says so',
  async (t) => {
    const settings = await startMoneySettings(t)
    const { id } = await settings.createInvoice({ ...PAST_DUE, chase_if_overdue: false })
    const path = `/settings/invoices/${id}`
    const chasing = async () => (await settings.read(`invoices/${id}`)).chasing
    const before = await chasing()
    await settings.ada.submit(`${path}/dispute`, { reason: 'Wrong price' })
    matches(t, await undo(settings, path), { status: 303 })
    t.strictSame(await chasing(), before)
    await settings.ada.submit(`${path}/dispute`, { reason: 'Wrong price' })
    matches(t, (await settings.ada.page(path)).text, /something else blocks them, too\. Blocked: /)
    await settings.ada.submit(`${path}/resolve`, { reason: 'A new price' })
    t.strictSame(await chasing(), before)
    matches(
      t,
      (await settings.ada.page(path)).text,
      /Dispute resolved\. Reminders are blocked again/,
    )
  },
)

t.test('after a partial payment, the page shows until when reminders are paused', async (t) => {
  const settings = await startMoneySettings(t)
  const { id } = await settings.createInvoice(PAST_DUE)
  await settings.create('payments', { invoice_id: id, currency: 'EUR', amount: 4000 })
  const page = await settings.ada.page(`/settings/invoices/${id}`)
  matches(t, page.text, /Paused until \w{3} \d+ \w{3,4}: a payment came in/)
})

t.test('finalizing an invoice needs a confirmation, which states the consequences', async (t) => {
  const settings = await startMoneySettings(t)
  const { id } = await settings.createInvoice({ ...PAST_DUE, status: 'draft' })
  const path = `/settings/invoices/${id}`
  matches(t, (await settings.ada.page(path)).text, containing(`href="${path}/finalise"`))
  const confirmation = await settings.ada.page(`${path}/finalise`)
  matches(t, confirmation.text, /owes.*This date has passed.*cannot be undone/s)
  t.equal((await settings.read(`invoices/${id}`)).status, 'draft')
  const done = await submit(
    settings,
    settings.ada,
    `${path}/finalise`,
    formOf(confirmation, `${path}/finalise`),
  )
  matches(t, done, { status: 303 })
  t.equal((await settings.read(`invoices/${id}`)).status, 'open')
  matches(t, await settings.ada.page(`${path}/finalise`), { status: 303 })
})

t.test('undo needs the CSRF token of the session', async (t) => {
  const settings = await startMoneySettings(t)
  const path = `/settings/customers/${settings.debtor.id}`
  await settings.ada.submit(`${path}/archive`, {})
  const after = await settings.ada.page(path)
  matches(t, after.text, /class="undo"[^>]*><input type="hidden" name="csrf_token" value="[\w-]+">/)
  t.equal((await settings.ada.submit(`${path}/restore`, { csrf_token: 'x' })).status, 403)
})
