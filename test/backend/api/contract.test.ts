import t from 'tap'
import { apiRoutes } from '../../../backend/api/routes.ts'
import { OPERATIONS } from '../../../backend/operations.ts'
import { loadContract } from '../../../shared/contract/contract.ts'
import { openTestAccount, type TestAccount } from '../../fixtures/accounts/test-account.ts'
import { faultsOf } from '../../fixtures/contract/schema.ts'
import { matches, throwsWith } from '../../fixtures/matches.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'

const contract = loadContract()

t.test('the API has one route for each operation of the contract, and no others', async (t) => {
  const { backend } = await openTestAccount(t)
  const deps = {
    database: backend.database,
    clock: () => backend.now,
    baseUrl: BASE_URL,
    cursorKeys: [Buffer.alloc(32)],
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

/** Opens a test account with records that have all optional fields, and records that have only the required ones. */
async function openTestAccountWithRecords(
  t: Parameters<typeof openTestAccount>[0],
): Promise<TestAccount> {
  const testAccount = await openTestAccount(t)
  const { id: debtor_id } = await testAccount.createDebtor({
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
  await testAccount.createDebtor({ email: null })
  const line = { description: 'a', quantity: '1.5', unit_amount: 3, tax_amount: -1 }
  const a = await testAccount.createInvoice({
    debtor_id,
    line_items: [line, { ...line, quantity: 2 }],
  })
  const b = await testAccount.createInvoice({ debtor_id, due_date: '2026-11-21', notes: 'a\nb' })
  await testAccount.create('/api/v1/payments', {
    amount: 20,
    currency: 'EUR',
    allocations: [
      { invoice_id: a.id, amount: 9 },
      { invoice_id: b.id, amount: 5 },
    ],
  })
  await testAccount.create('/api/v1/payments', { debtor_id, amount: 20, currency: 'JPY' })
  await testAccount.insertMessage([a, b], {
    status: 'sending',
    stage: 'firm',
    approval_required: 1,
  })
  await testAccount.insertMessage([a], {
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
  testAccount.backend.now = new Date('2026-12-01T00:00:00.000Z')
  return testAccount
}

t.test('the responses to reads match the contract', async (t) => {
  const testAccount = await openTestAccountWithRecords(t)
  const lists = {
    debtors: ['DebtorList', 'Debtor'],
    invoices: ['InvoiceList', 'Invoice'],
    payments: ['PaymentList', 'Payment'],
    messages: ['MessageList', 'Message'],
  } as const
  t.strictSame(faultsOf('Probe', await testAccount.read('/api/v1/me')), [])
  for (const [path, [list, item]] of Object.entries(lists)) {
    const page = await testAccount.read(`/api/v1/${path}?limit=1`)
    matches(t, page, { has_more: true })
    t.strictSame(faultsOf(list, page), [])
    for (const row of (await testAccount.read(`/api/v1/${path}`)).data) {
      t.strictSame(faultsOf(item, row), [])
      if (path === 'debtors' || path === 'invoices') {
        t.strictSame(await testAccount.read(`/api/v1/${path}/${row.id}`), row)
      }
    }
  }
})

t.test('rejections are problems that match the contract', async (t) => {
  const testAccount = await openTestAccountWithRecords(t)
  const [invoice] = (await testAccount.read('/api/v1/invoices')).data
  const money = { amount: 99_999, currency: 'EUR' }
  const draft = await testAccount.createInvoice({ status: 'draft' })
  const cases = [
    ['Problem', await testAccount.get('/api/v1/debtors/x')],
    ['Problem', await testAccount.get('/api/v1/debtors?x')],
    ['Problem', await testAccount.get('/api/v1/debtors?cursor=x')],
    ['ValidationProblem', await testAccount.post('/api/v1/debtors', { x: 1 })],
    [
      'ConflictProblem',
      await testAccount.post('/api/v1/debtors', { name: 'a', external_id: 'C-1' }),
    ],
    [
      'ConflictProblem',
      await testAccount.post('/api/v1/payments', { ...money, invoice_id: draft.id }),
    ],
    [
      'ValidationProblem',
      await testAccount.post('/api/v1/payments', { ...money, invoice_id: invoice.id }),
    ],
    [
      'ValidationProblem',
      await testAccount.post('/api/v1/payments', { ...money, invoice_id: 'x' }),
    ],
    [
      'ReadOnlyProblem',
      await (await testAccount.otherAccount({ status: 'cancelled' })).post('/api/v1/debtors', {}),
    ],
  ] as const
  for (const [schema, { status, json, headers }] of cases) {
    t.strictSame(faultsOf(schema, json), [], String(json['code']))
    t.equal(json['status'], status)
    t.equal(headers.get('content-type'), 'application/problem+json; charset=utf-8')
    t.equal(headers.get('cache-control'), 'no-store')
  }
})
