// Money by hand in Settings: previews, acts, double submits, and who may do them.
import t, { type Test } from 'tap'
import { setStatus } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { Json } from '../../fixtures/books/books.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import type { Response } from '../../fixtures/service/backend.ts'
import {
  ADMIN,
  createUserIn,
  logIn,
  MEMBER,
  startSettings,
} from '../../fixtures/service/settings.ts'

async function openDesk(t: Test) {
  const { backend, account } = await startSettings(t)
  const key = await backend.issueKey(account.id)
  const create = async (path: string, body: object): Promise<Json> => {
    const headers = { 'idempotency-key': crypto.randomUUID() }
    const response = await backend.call(key, 'POST', `/api/v1/${path}`, { body, headers })
    if (response.status !== 201) throw new Error(response.text)
    return response.json
  }
  const debtor = await create('debtors', { name: 'Globex', email: 'ap@globex.example' })
  return {
    backend,
    account,
    debtor,
    ada: await logIn(backend, ADMIN),
    create,
    invoice: (fields: object = {}) =>
      create('invoices', { debtor_id: debtor.id, currency: 'EUR', amount: 10_000, ...fields }),
    onAccount: (amount: number) =>
      create('payments', { debtor_id: debtor.id, currency: 'EUR', amount }),
    read: async (path: string): Promise<Json> =>
      (await backend.call(key, 'GET', `/api/v1/${path}`)).json,
    payments: async (): Promise<Json[]> =>
      (await backend.call(key, 'GET', '/api/v1/payments')).json['data'] as Json[],
    audit: async () =>
      (await backend.database.read.selectFrom('audit_log').select('action').execute()).map(
        ({ action }) => action,
      ),
  }
}

const unescaped = (text: string) => text.replaceAll('&lt;', '<').replaceAll('&gt;', '>')

/** What a page says, without its tags. */
const wordsOf = ({ text }: Response) => text.replace(/<[^>]*>/g, '')

/** The form of a page as a browser would send it: every field, with those given in place of theirs. */
function formOf({ text }: Response, action: string, given: Record<string, string> = {}) {
  const [, form = ''] = text.split(`action="${action}"`)
  const [inside = ''] = form.split('</form>')
  const fields = [...inside.matchAll(/<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"/g)].map(
    ([, name = '', value = '']) => [name, unescaped(value)] as [string, string],
  )
  return [...fields.filter(([name]) => !(name in given)), ...Object.entries(given)].filter(
    ([name]) => name !== 'csrf_token',
  )
}

type Person = Awaited<ReturnType<typeof logIn>>

function submit(
  desk: { backend: Desk['backend'] },
  { cookie, csrf }: Person,
  path: string,
  fields: [string, string][],
) {
  return desk.backend.request('POST', path, {
    headers: {
      accept: 'text/html',
      'content-type': 'application/x-www-form-urlencoded',
      cookie,
    },
    body: new URLSearchParams([['csrf_token', csrf], ...fields]).toString(),
  })
}

type Desk = Awaited<ReturnType<typeof openDesk>>

const EARLIER = { issue_date: '2026-01-01', due_date: '2026-01-31' }

t.test('a payment is recorded in two steps; a double click records it once', async (t) => {
  const desk = await openDesk(t)
  const { ada, debtor } = desk
  const late = await desk.invoice(EARLIER)
  const later = await desk.invoice({ amount: 5000 })
  const form = await ada.page(`/settings/payments/new?debtor_id=${debtor.id}`)
  matches(t, form, { status: 200, text: containing('Oldest invoices first') })
  const entered: [string, string][] = [
    ['debtor_id', debtor.id],
    ['currency', 'EUR'],
    ['amount', '1,2x'],
    ['received_on', '2026-11-20'],
    ['method', 'cheque'],
    ['reference', 'Cheque <77>'],
    ['put_to', 'oldest_first'],
  ]
  const wrong = await submit(desk, ada, '/settings/payments/preview', entered)
  matches(t, wrong, { status: 422, text: containing('must be a number such as 1234.50') })
  matches(t, wrong.text, containing('value="1,2x"'))
  const right = entered.map(([name, value]): [string, string] =>
    name === 'amount' ? [name, '120.00'] : [name, value],
  )
  const preview = await submit(desk, ada, '/settings/payments/preview', right)
  matches(t, preview, { status: 200, text: containing('Record this payment?') })
  matches(t, preview.text, containing('Cheque &lt;77&gt;'))
  t.strictSame(await desk.payments(), [], 'a preview records nothing')
  matches(t, await desk.read(`invoices/${late.id}`), { status: 'open', revision: late.revision })
  const fields = formOf(preview, '/settings/payments')
  const edit = await submit(desk, ada, '/settings/payments/edit', fields)
  matches(t, edit, { status: 200, text: containing('value="120.00"') })
  const clicks = await Promise.all(
    [1, 2, 3].map(() => submit(desk, ada, '/settings/payments', fields)),
  )
  const [payment, ...others] = await desk.payments()
  t.strictSame(others, [])
  for (const click of clicks) {
    t.equal(click.status, 303)
    t.equal(click.headers.get('location'), `/settings/payments/${payment.id}`)
  }
  matches(t, payment, {
    amount: 12_000,
    method: 'cheque',
    reference: 'Cheque <77>',
    received_on: '2026-11-20',
    source: 'app',
    recorded_by: { type: 'user', label: ADMIN },
    idempotency_key: null,
    allocations: [
      { invoice_id: late.id, amount: 10_000 },
      { invoice_id: later.id, amount: 2000 },
    ],
  })
  const shown = await ada.page(`/settings/payments/${payment.id}`)
  matches(t, shown.text, /Payment recorded\..*€120\.00.*Take back…/s)
  const again = await submit(desk, ada, '/settings/payments/preview', right)
  matches(t, again.text, containing('is recorded already'))
})

t.test('what a script sends is recorded once for its key, and previewed', async (t) => {
  const desk = await openDesk(t)
  const { ada, debtor } = desk
  const one = await desk.invoice(EARLIER)
  const body = {
    debtor_id: debtor.id,
    currency: 'EUR',
    amount: 10_500,
    method: 'cash',
    allocations: [{ invoice_id: one.id, amount: 10_000 }],
    idempotency_key: 'till-1',
  }
  matches(t, await ada.send('POST', '/settings/payments/preview', body), {
    status: 200,
    json: {
      object: 'preview',
      invoices: [
        {
          id: one.id,
          before: { status: 'open', amount_due: 10_000 },
          after: { status: 'paid', amount_due: 0 },
        },
      ],
      on_account: [{ currency: 'EUR', before: 0, after: 500 }],
      messages_cancelled: 0,
    },
  })
  const first = await ada.send('POST', '/settings/payments', body)
  matches(t, first, { status: 201, json: { unapplied_amount: 500, method: 'cash' } })
  t.strictSame((await ada.send('POST', '/settings/payments', body)).json, first.json)
  matches(t, await ada.send('POST', '/settings/payments', { ...body, amount: 11_000 }), {
    status: 422,
    json: { code: 'idempotency_key_reused', original_id: first.json['id'] },
  })
  const { idempotency_key: _, ...keyless } = body
  matches(t, await ada.send('POST', '/settings/payments', keyless), {
    status: 400,
    json: { code: 'idempotency_key_required' },
  })
  for (const [fields, pointer] of [
    [{ amount: 0 }, '/amount'],
    [{ amount: 1.5 }, '/amount'],
    [{ currency: 'XXX' }, '/currency'],
    [{ received_on: '2026-11-30' }, '/received_on'],
    [{ method: 'barter' }, '/method'],
    [{ allocations: [{ invoice_id: one.id, amount: 1 }] }, '/allocations/0/amount'],
    [{ put_to: 'someone' }, '/put_to'],
  ] as const) {
    const wrong = { ...body, idempotency_key: 'till-2', ...fields }
    const { status, json } = await ada.send('POST', '/settings/payments', wrong)
    matches(t, { status, json }, { status: 422, json: { errors: [{ pointer }] } }, pointer)
  }
  t.equal((await desk.payments()).length, 1)
})

t.test('money on account is allocated and taken back; reminders are foreseen', async (t) => {
  const desk = await openDesk(t)
  const { ada } = desk
  const one = await desk.invoice(EARLIER)
  const payment = await desk.onAccount(15_000)
  const path = `/settings/payments/${payment.id}`
  const form = await ada.page(`${path}/allocate`)
  matches(t, form, { status: 200, text: containing('value="100.00"') })
  const preview = await submit(
    desk,
    ada,
    `${path}/allocate/preview`,
    formOf(form, `${path}/allocate/preview`),
  )
  matches(t, wordsOf(preview), /Allocate this money\?.*€100\.00 less is on account.*Paid/s)
  const fields = formOf(preview, `${path}/allocate`)
  const [first, second] = await Promise.all([
    submit(desk, ada, `${path}/allocate`, fields),
    submit(desk, ada, `${path}/allocate`, fields),
  ])
  t.strictSame([first?.status, second?.status], [303, 303])
  matches(t, await desk.read(`invoices/${one.id}`), { status: 'paid', amount_paid: 10_000 })

  const takeBack = await ada.page(`${path}/take-back?invoice_id=${one.id}`)
  matches(
    t,
    wordsOf(takeBack),
    /Take this allocation back\?.*€100\.00 more is on account.*is due then/s,
  )
  const requested = formOf(takeBack, `${path}/take-back`, { reason: ' ' })
  const refused = await submit(desk, ada, `${path}/take-back`, requested)
  matches(t, refused, { status: 422, text: containing('Say why: others will ask.') })
  const given = formOf(takeBack, `${path}/take-back`, { reason: 'For another' })
  const clicks = await Promise.all([1, 2].map(() => submit(desk, ada, `${path}/take-back`, given)))
  t.strictSame(
    clicks.map(({ status }) => status),
    [303, 303],
  )
  matches(t, await desk.read(`invoices/${one.id}`), { status: 'open', amount_paid: 0 })
  const reverse = await ada.page(`${path}/reverse`)
  matches(t, wordsOf(reverse), containing('€150.00 less is on account'))
  matches(t, await ada.send('POST', `${path}/reverse`, { reason: 'It bounced' }), {
    status: 200,
    json: { status: 'reversed' },
  })
  t.strictSame(
    (await desk.audit()).filter((action) => action.startsWith('payment.')),
    ['payment.allocated', 'payment.allocation_taken_back', 'payment.reversed'],
  )
})

t.test(
  'two people allocate the same money at once: one of them is told that it is gone',
  async (t) => {
    const desk = await openDesk(t)
    const [one, two] = [await desk.invoice(EARLIER), await desk.invoice()]
    const payment = await desk.onAccount(10_000)
    const outcomes = await Promise.all(
      [one, two].map(({ id }, index) =>
        desk.ada.send('POST', `/settings/payments/${payment.id}/allocate`, {
          allocations: [{ invoice_id: id, amount: 10_000 }],
          idempotency_key: `person-${index}`,
        }),
      ),
    )
    t.strictSame(outcomes.map(({ status }) => status).toSorted(), [200, 422])
    const lost = outcomes.find(({ status }) => status === 422)
    t.equal(lost?.json['code'], 'allocation_exceeds_payment')
  },
)

t.test('an invoice is credited after a preview', async (t) => {
  const desk = await openDesk(t)
  const { ada } = desk
  const invoice = await desk.invoice()
  const path = `/settings/invoices/${invoice.id}/credit`
  matches(t, await ada.page(path), { status: 200, text: containing('owes <span') })
  const tooMuch = await ada.submit(`${path}/preview`, { amount: '100.01', reason: 'Billed twice' })
  matches(t, tooMuch, { status: 422, text: containing('The credit is at most €100.00') })
  const preview = await ada.submit(`${path}/preview`, { amount: '25.5', reason: 'Billed twice' })
  matches(t, preview.text, /Credit this invoice\?.*€100\.00.*€74\.50/s)
  const fields = formOf(preview, path)
  const clicks = await Promise.all([1, 2].map(() => submit(desk, ada, path, fields)))
  t.strictSame(
    clicks.map(({ status }) => status),
    [303, 303],
  )
  matches(t, await desk.read(`invoices/${invoice.id}`), { amount_credited: 2550, amount_due: 7450 })
  const script = { amount: 450, reason: 'Rounding', idempotency_key: 'c-1' }
  matches(t, await ada.send('POST', path, script), { status: 200, json: { amount_credited: 3000 } })
  matches(t, await ada.send('POST', path, script), { json: { amount_credited: 3000 } })
  matches(t, (await ada.page(`/settings/invoices/${invoice.id}`)).text, containing('Credited'))
})

t.test('members, other accounts and read-only accounts are refused on every route', async (t) => {
  const desk = await openDesk(t)
  const { backend, ada } = desk
  const invoice = await desk.invoice()
  const payment = await desk.onAccount(1000)
  const other = await backend.createAccount()
  await createUserIn(backend, other.id, 'eve@other.example', 'admin')
  const max = await logIn(backend, MEMBER)
  const eve = await logIn(backend, 'eve@other.example')
  const allocations = [{ invoice_id: invoice.id, amount: 1 }]
  const keyed = { idempotency_key: 'k' }
  const reads = [
    `/settings/payments/new?debtor_id=${desk.debtor.id}`,
    `/settings/payments/new?invoice_id=${invoice.id}`,
    `/settings/payments/${payment.id}/allocate`,
    `/settings/payments/${payment.id}/reverse`,
    `/settings/payments/${payment.id}/take-back?invoice_id=${invoice.id}`,
    `/settings/invoices/${invoice.id}/credit`,
  ]
  const payBody = { debtor_id: desk.debtor.id, currency: 'EUR', amount: 1, ...keyed }
  const credit = { amount: 1, reason: 'x', ...keyed }
  const writes = [
    ['/settings/payments', payBody],
    ['/settings/payments/preview', payBody],
    [`/settings/payments/${payment.id}/allocate`, { allocations, ...keyed }],
    [`/settings/payments/${payment.id}/allocate/preview`, { allocations }],
    [`/settings/payments/${payment.id}/take-back`, { invoice_id: invoice.id, reason: 'x' }],
    [`/settings/payments/${payment.id}/reverse`, { reason: 'x' }],
    [`/settings/invoices/${invoice.id}/credit`, credit],
    [`/settings/invoices/${invoice.id}/credit/preview`, credit],
  ] as const
  for (const path of reads) {
    t.equal((await max.page(path)).status, 403, path)
    t.equal((await eve.page(path)).status, 404, path)
  }
  for (const [path, body] of writes) {
    t.equal((await max.send('POST', path, body)).status, 403, path)
    t.equal((await eve.send('POST', path, body)).status, 404, path)
    const headers = { cookie: ada.cookie, accept: 'application/json' }
    const forged = await backend.request('POST', path, { headers, body })
    t.equal(forged.json['code'], 'invalid_csrf_token', path)
  }
  await backend.database.transaction((tx) =>
    setStatus(tx, desk.account.id, 'suspended', { actor: OPERATOR, now: backend.now }),
  )
  for (const path of reads) {
    const page = await ada.page(path)
    matches(t, page, { status: 423, text: containing('This account is suspended.') }, path)
  }
  for (const [path, body] of writes) {
    const { status, json } = await ada.send('POST', path, body)
    matches(t, { status, json }, { status: 423, json: { code: 'account_read_only' } }, path)
  }
  matches(t, await desk.read(`invoices/${invoice.id}`), { amount_due: 10_000 })
})

t.test('a customer and its invoice are entered by hand, each once for its form', async (t) => {
  const desk = await openDesk(t)
  const { ada } = desk
  const form = await ada.page('/settings/customers/new')
  const given = {
    name: ' Café Zoë ',
    email: 'zoe@cafe.example',
    city: 'Gent',
    country: 'BE',
    external_id: 'C-9',
    payment_terms_days: '14',
  }
  const wrong = { ...given, email: 'nowhere', country: 'ZZ', payment_terms_days: 'soon' }
  const refused = await submit(
    desk,
    ada,
    '/settings/customers',
    formOf(form, '/settings/customers', wrong),
  )
  matches(t, refused, { status: 422, text: containing('E-mail must be one e-mail address') })
  for (const said of ['Country must be', 'Payment terms must be', 'value="nowhere"']) {
    matches(t, refused.text, containing(said))
  }
  const fields = formOf(form, '/settings/customers', given)
  const clicks = await Promise.all(
    [1, 2].map(() => submit(desk, ada, '/settings/customers', fields)),
  )
  const [place] = clicks.map(({ headers }) => headers.get('location') ?? '')
  t.strictSame(
    clicks.map(({ status, headers }) => [status, headers.get('location')]),
    [
      [303, place],
      [303, place],
    ],
  )
  const id = place?.split('/').at(-1) ?? ''
  const customer = await desk.read(`debtors/${id}`)
  matches(t, customer, {
    name: 'Café Zoë',
    email: 'zoe@cafe.example',
    external_id: 'C-9',
    payment_terms_days: 14,
    address: { city: 'Gent', country: 'BE', line1: null },
  })
  const twin = await submit(
    desk,
    ada,
    '/settings/customers',
    formOf(await ada.page('/settings/customers/new'), '/settings/customers', given),
  )
  matches(t, twin, { status: 409, text: containing('External ID is taken') })

  const blank = await ada.page(`/settings/invoices/new?debtor_id=${id}`)
  const bill = {
    amount: '1,250.00',
    number: 'A-1',
    issue_date: '2026-11-01',
    due_date: '2026-10-01',
  }
  const tooEarly = formOf(blank, '/settings/invoices', bill)
  matches(t, await submit(desk, ada, '/settings/invoices', tooEarly), {
    status: 422,
    text: containing('Due on must not be before the issue date'),
  })
  const right = formOf(blank, '/settings/invoices', { ...bill, due_date: '' })
  const posts = await Promise.all([1, 2].map(() => submit(desk, ada, '/settings/invoices', right)))
  t.strictSame(
    posts.map(({ status }) => status),
    [303, 303],
  )
  const { data } = await desk.read(`invoices?debtor_id=${id}`)
  matches(t, data, [
    { number: 'A-1', amount: 125_000, currency: 'EUR', due_date: '2026-11-15', status: 'open' },
  ])
  t.equal(data.length, 1)
  const script = { debtor_id: id, amount: 700, currency: 'EUR', idempotency_key: 's-1' }
  matches(t, await ada.send('POST', '/settings/invoices', { ...script, status: 'draft' }), {
    status: 201,
    json: { status: 'draft', amount: 700 },
  })
  const max = await logIn(desk.backend, MEMBER)
  t.equal((await max.page('/settings/customers/new')).status, 403)
  t.equal(
    (await max.send('POST', '/settings/customers', { name: 'x', idempotency_key: 'y' })).status,
    403,
  )
  t.equal((await max.send('POST', '/settings/invoices', script)).status, 403)
  const other = await desk.backend.createAccount()
  await createUserIn(desk.backend, other.id, 'eve@other.example', 'admin')
  const eve = await logIn(desk.backend, 'eve@other.example')
  t.equal((await eve.page(`/settings/invoices/new?debtor_id=${id}`)).status, 404)
  t.equal(
    (await eve.send('POST', '/settings/invoices', { ...script, idempotency_key: 'e' })).status,
    404,
  )
  t.strictSame(
    (await desk.audit()).filter(
      (action) => action.endsWith('.created') && !/^(user|account)/.test(action),
    ),
    ['debtor.created', 'invoice.created', 'invoice.created'],
  )
})

t.test('an invoice is corrected; its reminders are planned by the new due date', async (t) => {
  const desk = await openDesk(t)
  const { ada } = desk
  const invoice = await desk.invoice({ ...EARLIER, notes: 'Old' })
  const path = `/settings/invoices/${invoice.id}`
  const form = await ada.page(`${path}/edit`)
  matches(t, form, { status: 200, text: containing('value="2026-01-31"') })
  const early = formOf(form, path, { due_date: '2025-12-31', payment_url: 'ftp://x' })
  matches(t, await submit(desk, ada, path, early), {
    status: 422,
    text: containing('Payment link must be an https address'),
  })
  const wrong = formOf(form, path, { due_date: '2025-12-31' })
  matches(t, await submit(desk, ada, path, wrong), {
    status: 422,
    text: containing('Due on must not be before the issue date'),
  })
  const right = formOf(form, path, { due_date: '2026-12-15', notes: '', po_number: 'PO-7' })
  matches(t, await submit(desk, ada, path, right), { status: 303 })
  matches(t, await desk.read(`invoices/${invoice.id}`), {
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
    (await desk.audit()).filter((action) => action.startsWith('invoice.')),
    ['invoice.edited', 'invoice.edited'],
  )
  const max = await logIn(desk.backend, MEMBER)
  t.equal((await max.send('PUT', path, { notes: 'x' })).status, 403)
  await ada.send('POST', `${path}/credit`, { amount: 10_000, reason: 'x', idempotency_key: 'k' })
  t.equal((await ada.send('PUT', path, { notes: 'x' })).json['code'], 'invoice_state_conflict')
})
