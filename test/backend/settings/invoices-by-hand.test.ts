// In Settings, people add customers, and enter, change and credit invoices.
import t from 'tap'
import {
  formOf,
  PAST_DUE,
  startMoneySettings,
  submit,
} from '../../fixtures/accounts/money-settings.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { ADMIN, createUserIn, logIn, MEMBER } from '../../fixtures/service/settings.ts'

t.test('an invoice is credited after a preview', async (t) => {
  const settings = await startMoneySettings(t)
  const { ada } = settings
  const invoice = await settings.createInvoice()
  const path = `/settings/invoices/${invoice.id}/credit`
  matches(t, await ada.page(path), { status: 200, text: containing('owes <span') })
  const tooMuch = await ada.submit(`${path}/preview`, { amount: '100.01', reason: 'Billed twice' })
  matches(t, tooMuch, {
    status: 422,
    text: containing('The credit must not exceed the amount due, €100.00'),
  })
  const preview = await ada.submit(`${path}/preview`, { amount: '25.5', reason: 'Billed twice' })
  matches(t, preview.text, /Credit this invoice\?.*€100\.00.*€74\.50/s)
  const fields = formOf(preview, path)
  const clicks = await Promise.all([1, 2].map(() => submit(settings, ada, path, fields)))
  t.strictSame(
    clicks.map(({ status }) => status),
    [303, 303],
  )
  matches(t, await settings.read(`invoices/${invoice.id}`), {
    amount_credited: 2550,
    amount_due: 7450,
  })
  const jsonBody = { amount: 450, reason: 'Rounding', idempotency_key: 'c-1' }
  matches(t, await ada.send('POST', path, jsonBody), {
    status: 200,
    json: { amount_credited: 3000 },
  })
  matches(t, await ada.send('POST', path, jsonBody), { json: { amount_credited: 3000 } })
  matches(t, (await ada.page(`/settings/invoices/${invoice.id}`)).text, containing('Credited'))
})

// Regression: `yes` counted as false, so the customer got no reminders.
t.test('a script must send `true` or `false` as `chase_if_overdue`', async (t) => {
  const settings = await startMoneySettings(t)
  const { id: debtor_id } = settings.debtor
  const enter = (chase_if_overdue: string) =>
    settings.ada.send('POST', '/settings/invoices', {
      ...{ ...PAST_DUE, debtor_id, number: 'A-1', amount: 10_000, currency: 'EUR' },
      ...{ chase_if_overdue, idempotency_key: 'a-1' },
    })
  matches(t, await enter('yes'), {
    status: 422,
    json: { errors: [{ pointer: '/chase_if_overdue', code: 'invalid_enum' }] },
  })
  matches(t, await enter('false'), { status: 201 })
})

t.test(
  'a person adds a customer and an invoice; a form that is sent twice creates one record',
  async (t) => {
    const settings = await startMoneySettings(t)
    const { ada } = settings
    const form = await ada.page('/settings/customers/new')
    const entered = {
      name: ' Café Zoë ',
      email: 'zoe@cafe.example',
      city: 'Gent',
      country: 'BE',
      external_id: 'C-9',
      payment_terms_days: '14',
    }
    const wrong = { ...entered, email: 'nowhere', country: 'ZZ', payment_terms_days: 'soon' }
    const rejected = await submit(
      settings,
      ada,
      '/settings/customers',
      formOf(form, '/settings/customers', wrong),
    )
    matches(t, rejected, { status: 422, text: containing('E-mail must be one e-mail address') })
    for (const message of ['Country must be', 'Payment terms must be', 'value="nowhere"']) {
      matches(t, rejected.text, containing(message))
    }
    const fields = formOf(form, '/settings/customers', entered)
    const clicks = await Promise.all(
      [1, 2].map(() => submit(settings, ada, '/settings/customers', fields)),
    )
    const [location] = clicks.map(({ headers }) => headers.get('location') ?? '')
    t.strictSame(
      clicks.map(({ status, headers }) => [status, headers.get('location')]),
      [
        [303, location],
        [303, location],
      ],
    )
    const id = location?.split('/').at(-1) ?? ''
    const customer = await settings.read(`debtors/${id}`)
    matches(t, customer, {
      name: 'Café Zoë',
      email: 'zoe@cafe.example',
      external_id: 'C-9',
      payment_terms_days: 14,
      address: { city: 'Gent', country: 'BE', line1: null },
    })
    const duplicate = await submit(
      settings,
      ada,
      '/settings/customers',
      formOf(await ada.page('/settings/customers/new'), '/settings/customers', entered),
    )
    matches(t, duplicate, { status: 409, text: containing('External ID is already used') })

    const invoiceForm = await ada.page(`/settings/invoices/new?debtor_id=${id}`)
    const invoiceFields = {
      amount: '1,250.00',
      number: 'A-1',
      issue_date: '2026-11-01',
      due_date: '2026-10-01',
    }
    const tooEarly = formOf(invoiceForm, '/settings/invoices', invoiceFields)
    matches(t, await submit(settings, ada, '/settings/invoices', tooEarly), {
      status: 422,
      text: containing('Due on must not be before the issue date'),
    })
    const valid = formOf(invoiceForm, '/settings/invoices', { ...invoiceFields, due_date: '' })
    const posts = await Promise.all(
      [1, 2].map(() => submit(settings, ada, '/settings/invoices', valid)),
    )
    t.strictSame(
      posts.map(({ status }) => status),
      [303, 303],
    )
    const { data } = await settings.read(`invoices?debtor_id=${id}`)
    matches(t, data, [
      { number: 'A-1', amount: 125_000, currency: 'EUR', due_date: '2026-11-15', status: 'open' },
    ])
    t.equal(data.length, 1)
    const jsonBody = { debtor_id: id, amount: 700, currency: 'EUR', idempotency_key: 's-1' }
    matches(t, await ada.send('POST', '/settings/invoices', { ...jsonBody, status: 'draft' }), {
      status: 201,
      json: { status: 'draft', amount: 700 },
    })
    const mia = await logIn(settings.backend, MEMBER)
    t.equal((await mia.page('/settings/customers/new')).status, 403)
    t.equal(
      (await mia.send('POST', '/settings/customers', { name: 'x', idempotency_key: 'y' })).status,
      403,
    )
    t.equal((await mia.send('POST', '/settings/invoices', jsonBody)).status, 403)
    const other = await settings.backend.createAccount()
    await createUserIn(settings.backend, other.id, 'eve@other.example', 'admin')
    const eve = await logIn(settings.backend, 'eve@other.example')
    t.equal((await eve.page(`/settings/invoices/new?debtor_id=${id}`)).status, 404)
    t.equal(
      (await eve.send('POST', '/settings/invoices', { ...jsonBody, idempotency_key: 'e' })).status,
      404,
    )
    t.strictSame(
      (await settings.audit()).filter(
        (action) => action.endsWith('.created') && !/^(user|account)/.test(action),
      ),
      ['debtor.created', 'invoice.created', 'invoice.created'],
    )
  },
)

t.test('an invoice can be changed, and is not overdue after its due date is moved', async (t) => {
  const settings = await startMoneySettings(t)
  const { ada } = settings
  const invoice = await settings.createInvoice({ ...PAST_DUE, notes: 'Old' })
  const path = `/settings/invoices/${invoice.id}`
  const form = await ada.page(`${path}/edit`)
  matches(t, form, { status: 200, text: containing('value="2026-01-31"') })
  const early = formOf(form, path, { due_date: '2025-12-31', payment_url: 'ftp://x' })
  matches(t, await submit(settings, ada, path, early), {
    status: 422,
    text: containing('Payment link must be an https address'),
  })
  const wrong = formOf(form, path, { due_date: '2025-12-31' })
  matches(t, await submit(settings, ada, path, wrong), {
    status: 422,
    text: containing('Due on must not be before the issue date'),
  })
  const valid = formOf(form, path, { due_date: '2026-12-15', notes: '', po_number: 'PO-7' })
  matches(t, await submit(settings, ada, path, valid), { status: 303 })
  matches(t, await settings.read(`invoices/${invoice.id}`), {
    due_date: '2026-12-15',
    notes: null,
    po_number: 'PO-7',
    is_overdue: false,
    revision: 2,
  })
  matches(t, await ada.send('PUT', path, { notes: 'New' }), {
    status: 200,
    json: { notes: 'New', po_number: 'PO-7', revision: 3 },
  })
  matches(t, await ada.send('PUT', path, { notes: 'New' }), { json: { revision: 3 } })
  t.strictSame(
    (await settings.audit()).filter((action) => action.startsWith('invoice.')),
    ['invoice.edited', 'invoice.edited'],
  )
  const mia = await logIn(settings.backend, MEMBER)
  t.equal((await mia.send('PUT', path, { notes: 'x' })).status, 403)
  await ada.send('POST', `${path}/credit`, { amount: 10_000, reason: 'x', idempotency_key: 'k' })
  t.equal((await ada.send('PUT', path, { notes: 'x' })).json['code'], 'invoice_state_conflict')
})

t.test('the page of an invoice lists its credits, with date, reason and person', async (t) => {
  const settings = await startMoneySettings(t)
  const invoice = await settings.createInvoice()
  const path = `/settings/invoices/${invoice.id}`
  for (const [amount, reason] of [
    [1500, 'Two <b>boxes</b> broken'] as const,
    [500, 'Late'] as const,
  ]) {
    await settings.ada.send('POST', `${path}/credit`, {
      amount,
      reason,
      idempotency_key: reason.slice(0, 3),
    })
  }
  await settings.ada.send('POST', `${path}/dispute`, { reason: 'Wrong price' })
  const page = await settings.ada.page(path)
  const [, history = ''] = page.text.split('id="history"')
  const rows = [...history.matchAll(/<tr><td data-label="When">(.*?)<\/tr>/gs)].map(
    ([, row = '']) =>
      row
        .replace(/^.*?<\/time><\/td>/s, '')
        .replace(/<[^>]*>/g, ' ')
        .replace(/\s+/g, ' ')
        .trim(),
  )
  t.strictSame(rows, [
    `Recorded a dispute Wrong price ${ADMIN} –`,
    `Credited an invoice Late ${ADMIN} €5.00`,
    `Credited an invoice Two &lt;b&gt;boxes&lt;/b&gt; broken ${ADMIN} €15.00`,
  ])
})
