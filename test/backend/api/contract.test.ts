import t from 'tap'
import { apiRoutes } from '../../../backend/api/routes.ts'
import { OPERATIONS } from '../../../backend/operations.ts'
import { loadContract } from '../../../shared/contract/contract.ts'
import { type Books, openBooks } from '../../fixtures/books/books.ts'
import { faultsOf } from '../../fixtures/contract/schema.ts'
import { matches, throwsWith } from '../../fixtures/matches.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'

const contract = loadContract()

t.test('the API has one route for each operation of the contract, and no others', async (t) => {
  const { backend } = await openBooks(t)
  const deps = {
    database: backend.database,
    clock: () => backend.now,
    baseUrl: BASE_URL,
    cursorKey: Buffer.alloc(32),
    operations: OPERATIONS,
  }
  const routes = apiRoutes({ ...deps, contract })
  t.strictSame(
    routes.map(({ method, path }) => `${method} ${path}`),
    contract.operations.map(({ method, path }) => `${method} ${path}`),
  )
  t.ok(routes.every(({ options }) => typeof options === 'object' && options.auth === 'principal'))
  const [first, ...rest] = contract.operations
  throwsWith(t, () => apiRoutes({ ...deps, contract: { ...contract, operations: rest } }), {
    message: 'getMe is not an operation of the contract',
  })
  const unknown = first === undefined ? [] : [{ ...first, operationId: 'getYou' }]
  throwsWith(
    t,
    () =>
      apiRoutes({
        ...deps,
        contract: { ...contract, operations: [...contract.operations, ...unknown] },
      }),
    { message: 'GET /api/v1/me: no handler for getYou' },
  )
})

/** Opens books with records that have all optional fields, and records that have only the required ones. */
async function openFullBooks(t: Parameters<typeof openBooks>[0]): Promise<Books> {
  const books = await openBooks(t)
  const { id: debtor_id } = await books.debtor({
    external_id: 'C-1',
    phone: '+31205550142',
    language: 'nl',
    currency: 'KWD',
    payment_terms_days: 0,
    timezone: 'Asia/Kuwait',
    address: { line1: 'a', country: 'KW' },
    tax_id: '1',
    company_number: '2',
    metadata: { a: 'b' },
  })
  await books.debtor({ email: null })
  const line = { description: 'a', quantity: '1.5', unit_amount: 3, tax_amount: -1 }
  const a = await books.invoice({ debtor_id, line_items: [line, { ...line, quantity: 2 }] })
  const b = await books.invoice({ debtor_id, due_date: '2026-11-21', notes: 'a\nb' })
  await books.create('/api/v1/payments', {
    amount: 20,
    currency: 'EUR',
    allocations: [
      { invoice_id: a.id, amount: 9 },
      { invoice_id: b.id, amount: 5 },
    ],
  })
  await books.create('/api/v1/payments', { debtor_id, amount: 20, currency: 'JPY' })
  await books.message([a, b], { status: 'sending', stage: 'firm', approval_required: 1 })
  await books.message([a], {
    status: 'suppressed',
    stage: null,
    suppression_reason: 'demo',
    approval_status: 'lapsed',
    approval_required: 1,
    recipient: null,
    body: null,
    currency: null,
    amount_due: null,
  })
  books.backend.now = new Date('2026-12-01T00:00:00.000Z')
  return books
}

t.test('the responses to reads match the contract', async (t) => {
  const books = await openFullBooks(t)
  const lists = {
    debtors: ['DebtorList', 'Debtor'],
    invoices: ['InvoiceList', 'Invoice'],
    payments: ['PaymentList', 'Payment'],
    messages: ['MessageList', 'Message'],
  } as const
  t.strictSame(faultsOf('Probe', await books.read('/api/v1/me')), [])
  for (const [path, [list, item]] of Object.entries(lists)) {
    const page = await books.read(`/api/v1/${path}?limit=1`)
    matches(t, page, { has_more: true })
    t.strictSame(faultsOf(list, page), [])
    for (const row of (await books.read(`/api/v1/${path}`)).data) {
      t.strictSame(faultsOf(item, row), [])
      if (path === 'debtors' || path === 'invoices') {
        t.strictSame(await books.read(`/api/v1/${path}/${row.id}`), row)
      }
    }
  }
})

t.test('rejections are problems that match the contract', async (t) => {
  const books = await openFullBooks(t)
  const [invoice] = (await books.read('/api/v1/invoices')).data
  const money = { amount: 99_999, currency: 'EUR' }
  const draft = await books.invoice({ status: 'draft' })
  const cases = [
    ['Problem', await books.get('/api/v1/debtors/x')],
    ['Problem', await books.get('/api/v1/debtors?x')],
    ['Problem', await books.get('/api/v1/debtors?cursor=x')],
    ['ValidationProblem', await books.post('/api/v1/debtors', { x: 1 })],
    ['ConflictProblem', await books.post('/api/v1/debtors', { name: 'a', external_id: 'C-1' })],
    ['ConflictProblem', await books.post('/api/v1/payments', { ...money, invoice_id: draft.id })],
    [
      'ValidationProblem',
      await books.post('/api/v1/payments', { ...money, invoice_id: invoice.id }),
    ],
    ['ValidationProblem', await books.post('/api/v1/payments', { ...money, invoice_id: 'x' })],
    [
      'ReadOnlyProblem',
      await (await books.otherAccount({ status: 'cancelled' })).post('/api/v1/debtors', {}),
    ],
  ] as const
  for (const [schema, { status, json, headers }] of cases) {
    t.strictSame(faultsOf(schema, json), [], String(json['code']))
    t.equal(json['status'], status)
    t.equal(headers.get('content-type'), 'application/problem+json; charset=utf-8')
    t.equal(headers.get('cache-control'), 'no-store')
  }
})
