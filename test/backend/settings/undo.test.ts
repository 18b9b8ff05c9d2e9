// The page after an act that can be undone has a button for it: a form, which needs no script.
import t from 'tap'
import { formOf, openDesk, PAST_DUE, submit } from '../../fixtures/books/money-desk.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import type { Response } from '../../fixtures/service/backend.ts'
import { MEMBER } from '../../fixtures/service/settings.ts'

type Desk = Awaited<ReturnType<typeof openDesk>>

/** Presses Undo on the page that follows the act. */
async function undo(desk: Desk, page: string): Promise<Response> {
  const after = await desk.ada.page(page)
  const action = /<form method="post" action="([^"]+)" class="undo"/.exec(after.text)?.[1] ?? ''
  const fields = formOf(after, action)
  t.notMatch((await desk.ada.page(page)).text, /class="undo"/, 'it is shown once')
  return submit(desk, desk.ada, action, fields)
}

t.test('an archived customer is restored, and a restored one archived again', async (t) => {
  const desk = await openDesk(t)
  const path = `/settings/customers/${desk.debtor.id}`
  const status = async () => (await desk.read(`debtors/${desk.debtor.id}`)).status
  await desk.ada.submit(`${path}/archive`, {})
  matches(t, await undo(desk, path), { status: 303 })
  t.equal(await status(), 'active')
  matches(t, await undo(desk, path), { status: 303 })
  t.equal(await status(), 'archived')
})

t.test('a pause that was ended is brought back with its reason and its day', async (t) => {
  const desk = await openDesk(t)
  const path = `/settings/customers/${desk.debtor.id}`
  await desk.ada.submit(`${path}/pause`, { reason: 'A plan', until: '2027-01-04' })
  const paused = (await desk.read(`debtors/${desk.debtor.id}`)).chasing
  await desk.ada.submit(`${path}/resume`, {})
  await undo(desk, path)
  t.strictSame((await desk.read(`debtors/${desk.debtor.id}`)).chasing, paused)
  await desk.ada.submit(`${path}/archive`, {})
  const after = await desk.ada.page(path)
  t.notMatch(after.text, /class="undo"/, 'a restored customer would be reminded')
})

t.test('an allocation is undone and done again, each once', async (t) => {
  const desk = await openDesk(t)
  const invoice = await desk.invoice(PAST_DUE)
  const payment = await desk.onAccount(4000)
  const path = `/settings/payments/${payment.id}`
  const due = async () => (await desk.read(`invoices/${invoice.id}`)).amount_due
  const preview = await submit(desk, desk.ada, `${path}/allocate/preview`, [
    ['allocations/invoice_id', invoice.id],
    ['allocations/amount', '40.00'],
  ])
  await submit(desk, desk.ada, `${path}/allocate`, formOf(preview, `${path}/allocate`))
  t.equal(await due(), 6000)
  const after = await desk.ada.page(path)
  const fields = formOf(after, `${path}/undo-allocation`)
  const clicks = await Promise.all(
    [1, 2].map(() => submit(desk, desk.ada, `${path}/undo-allocation`, fields)),
  )
  t.strictSame(
    clicks.map(({ status }) => status),
    [303, 303],
  )
  t.equal(await due(), 10_000)
  await desk.ada.submit(`${path}/allocate`, {})
  const allocations = [{ invoice_id: invoice.id, amount: 4000 }]
  await desk.ada.send('POST', `${path}/allocate`, { allocations, idempotency_key: 'again' })
  await desk.ada.submit(`${path}/take-back`, { invoice_id: invoice.id, reason: 'Wrong one' })
  t.equal(await due(), 10_000)
  matches(t, await undo(desk, path), { status: 303 })
  t.equal(await due(), 6000)
  const acts = (await desk.audit()).filter((action) => action.startsWith('payment.'))
  t.strictSame(acts, [
    ...['payment.allocated', 'payment.allocation_taken_back', 'payment.allocated'],
    ...['payment.allocation_taken_back', 'payment.allocated'],
  ])
})

t.test('the button takes nothing back that was allocated later', async (t) => {
  const desk = await openDesk(t)
  const invoice = await desk.invoice(PAST_DUE)
  const payment = await desk.onAccount(4000)
  const path = `/settings/payments/${payment.id}`
  const preview = await submit(desk, desk.ada, `${path}/allocate/preview`, [
    ['allocations/invoice_id', invoice.id],
    ['allocations/amount', '10.00'],
  ])
  await submit(desk, desk.ada, `${path}/allocate`, formOf(preview, `${path}/allocate`))
  const fields = formOf(await desk.ada.page(path), `${path}/undo-allocation`)
  const allocations = [{ invoice_id: invoice.id, amount: 500 }]
  await desk.ada.send('POST', `${path}/allocate`, { allocations, idempotency_key: 'more' })
  t.equal((await submit(desk, desk.ada, `${path}/undo-allocation`, fields)).status, 422)
  t.equal((await desk.read(`invoices/${invoice.id}`)).amount_due, 8500)
})

t.test(
  'disputes and logins are brought back too; what cannot be undone says so before',
  async (t) => {
    const desk = await openDesk(t)
    const invoice = await desk.invoice()
    const path = `/settings/invoices/${invoice.id}`
    const blocked = async () => (await desk.read(`invoices/${invoice.id}`)).chasing.blocked_reason
    await desk.ada.submit(`${path}/dispute`, { reason: 'Wrong price' })
    matches(t, await undo(desk, path), { status: 303 })
    t.equal(await blocked(), null)
    const { data } = (await desk.ada.get('/settings/people')).json as {
      data?: { id: string; email: string }[]
    }
    const max = data?.find(({ email }) => email === MEMBER)
    t.ok(max)
    if (max !== undefined) {
      await desk.ada.submit(`/settings/people/${max.id}/deactivate`, {})
      matches(t, await undo(desk, '/settings/people'), { status: 303 })
    }
    const page = await desk.ada.page(path)
    t.equal(page.text.match(/This cannot be undone/g)?.length, 2, 'void and write off')
  },
)

t.test(
  'what blocked an invoice before a dispute blocks it again, and the page says so',
  async (t) => {
    const desk = await openDesk(t)
    const { id } = await desk.invoice({ ...PAST_DUE, chase_if_overdue: false })
    const path = `/settings/invoices/${id}`
    const chasing = async () => (await desk.read(`invoices/${id}`)).chasing
    const before = await chasing()
    await desk.ada.submit(`${path}/dispute`, { reason: 'Wrong price' })
    matches(t, await undo(desk, path), { status: 303 })
    t.strictSame(await chasing(), before)
    await desk.ada.submit(`${path}/dispute`, { reason: 'Wrong price' })
    matches(t, (await desk.ada.page(path)).text, /applies again\. Blocked: /)
    await desk.ada.submit(`${path}/resolve`, { reason: 'A new price' })
    t.strictSame(await chasing(), before)
    matches(t, (await desk.ada.page(path)).text, /Resolved\. What blocked its reminders/)
  },
)

t.test('a partial payment is shown as a pause with its end', async (t) => {
  const desk = await openDesk(t)
  const { id } = await desk.invoice(PAST_DUE)
  await desk.create('payments', { invoice_id: id, currency: 'EUR', amount: 4000 })
  const page = await desk.ada.page(`/settings/invoices/${id}`)
  matches(t, page.text, /Paused until \w{3} \d+ \w{3,4}: a payment came in/)
})

t.test('finalising asks first, and says what follows', async (t) => {
  const desk = await openDesk(t)
  const { id } = await desk.invoice({ ...PAST_DUE, status: 'draft' })
  const path = `/settings/invoices/${id}`
  matches(t, (await desk.ada.page(path)).text, containing(`href="${path}/finalise"`))
  const confirmation = await desk.ada.page(`${path}/finalise`)
  matches(t, confirmation.text, /owes.*That day has passed.*cannot be a draft again/s)
  t.equal((await desk.read(`invoices/${id}`)).status, 'draft')
  const done = await submit(
    desk,
    desk.ada,
    `${path}/finalise`,
    formOf(confirmation, `${path}/finalise`),
  )
  matches(t, done, { status: 303 })
  t.equal((await desk.read(`invoices/${id}`)).status, 'open')
  matches(t, await desk.ada.page(`${path}/finalise`), { status: 303 })
})

t.test('an undo needs the token of the session', async (t) => {
  const desk = await openDesk(t)
  const path = `/settings/customers/${desk.debtor.id}`
  await desk.ada.submit(`${path}/archive`, {})
  const after = await desk.ada.page(path)
  matches(t, after.text, /class="undo"[^>]*><input type="hidden" name="csrf_token" value="[\w-]+">/)
  t.equal((await desk.ada.submit(`${path}/restore`, { csrf_token: 'x' })).status, 403)
})
