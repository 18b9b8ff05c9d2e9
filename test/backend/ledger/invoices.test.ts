import t from 'tap'
import { recordOverdueEvents } from '../../../backend/invoices/overdue-events.ts'
import { type Json, openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'
import { SILENT } from '../../fixtures/service/database.ts'

const LINE = { description: 'Consultancy', unit_amount: 9500 }

t.test('number, dates and status of an invoice have defaults', async (t) => {
  const testAccount = await openTestAccount(t)
  const debtor = await testAccount.createDebtor({ payment_terms_days: 14 })
  const response = await testAccount.post('/api/v1/invoices', {
    debtor_id: debtor.id,
    currency: 'jpy',
    amount: 1e3,
  })
  t.equal(response.status, 201)
  t.equal(response.headers.get('location'), `/api/v1/invoices/${response.json['id']}`)
  matches(t, response.json, {
    object: 'invoice',
    debtor_id: debtor.id,
    number: 'INV-000001',
    external_id: null,
    currency: 'JPY',
    currency_exponent: 0,
    amount: 1000,
    amount_paid: 0,
    amount_due: 1000,
    line_items: [],
    issue_date: '2026-11-21',
    due_date: '2026-12-05',
    status: 'open',
    is_overdue: false,
    days_past_due: 0,
    po_number: null,
    chasing: { status: 'active', stage: null, next_stage: 'friendly', blocked_reason: null },
    paid_at: null,
    metadata: {},
  })
  t.equal((await testAccount.get(`/api/v1/invoices/${response.json['id']}`)).text, response.text)
})

t.test('the account’s payment terms and time zone apply to a debtor that has none', async (t) => {
  const testAccount = await openTestAccount(t, { timezone: 'Pacific/Kiritimati' })
  const invoice = await testAccount.createInvoice()
  matches(t, invoice, { issue_date: '2026-11-22', due_date: '2026-12-22' })
})

// Regression: in a time zone east of UTC, the response was 500, because 18:00 of this day is in the year 10000.
t.test('an invoice can be due on the last date', async (t) => {
  const testAccount = await openTestAccount(t, { timezone: 'Asia/Tokyo' })
  const { chasing } = await testAccount.createInvoice({ due_date: '9999-12-31' })
  t.equal(chasing.next_action_at, '9999-12-30T23:00:00.000Z')
})

t.test('the amount is the sum of the lines, each rounded once, and of their taxes', async (t) => {
  const testAccount = await openTestAccount(t)
  const invoice = await testAccount.createInvoice({
    line_items: [
      { ...LINE, quantity: '7.5', tax_amount: 14963 },
      { description: 'Discount', unit_amount: -5000, tax_amount: -1050, quantity: null },
      { description: 'Half', unit_amount: 1, quantity: '0.5' },
    ],
  })
  t.equal(invoice.amount, 80164)
  t.strictSame(
    invoice.line_items.map(({ quantity, amount }: Record<string, unknown>) => [quantity, amount]),
    [
      ['7.5', 71250],
      [1, -5000],
      ['0.5', 1],
    ],
  )
})

t.test('an amount that is not the total of the lines is rejected with both figures', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: debtor_id } = await testAccount.createDebtor()
  const body = { debtor_id, currency: 'EUR', amount: 9501, line_items: [LINE] }
  const { status, json } = await testAccount.post('/api/v1/invoices', body)
  t.equal(status, 422)
  matches(t, json, {
    code: 'total_mismatch',
    expected: 9500,
    actual: 9501,
    errors: [{ pointer: '/amount', code: 'total_mismatch' }],
  })
  t.equal((await testAccount.post('/api/v1/invoices', { ...body, amount: 9500 })).status, 201)
})

t.test('lines whose total is zero or too large are rejected', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: debtor_id } = await testAccount.createDebtor()
  const cases = [
    [[{ ...LINE, unit_amount: 0 }], '/line_items'],
    [[LINE, { ...LINE, unit_amount: -9500 }], '/line_items'],
    [[{ ...LINE, unit_amount: 999_999_999_999, quantity: 2 }], '/line_items'],
    [[LINE, { ...LINE, unit_amount: 999_999_999_999, quantity: 1_000_000 }], '/line_items/1'],
  ] as const
  for (const [line_items, pointer] of cases) {
    const { json } = await testAccount.post('/api/v1/invoices', {
      debtor_id,
      currency: 'EUR',
      line_items,
    })
    matches(t, json, { code: 'validation_failed', errors: [{ pointer, code: 'out_of_range' }] })
  }
})

t.test('every invalid field is reported', async (t) => {
  const testAccount = await openTestAccount(t)
  const { json } = await testAccount.post('/api/v1/invoices', {
    debtor_id: 'deb_1',
    debtor_external_id: 'C-1',
    number: ' ',
    currency: null,
    line_items: [
      { quantity: 7.5, unit_amount: '9500', tax_amount: 0.5 },
      { description: 'a', quantity: '0', unit_amount: 1e12 },
      { description: 'a', quantity: '1.1234567', unit_amount: null },
      'a line',
    ],
    issue_date: '2026-02-30',
    due_date: '21-11-2026',
    status: 'paid',
    notes: 'x'.repeat(2001),
    payment_url: 'http://pay.example',
    metadata: [],
  })
  const errors = Array.isArray(json['errors']) ? json['errors'] : []
  t.strictSame(errors.map(({ pointer, code }) => `${pointer} ${code}`).sort(), [
    '/currency required',
    '/debtor_external_id conflicting_field',
    '/due_date invalid_format',
    '/issue_date invalid_format',
    '/line_items/0/description required',
    '/line_items/0/quantity invalid_type',
    '/line_items/0/tax_amount invalid_type',
    '/line_items/0/unit_amount invalid_type',
    '/line_items/1/quantity out_of_range',
    '/line_items/1/unit_amount out_of_range',
    '/line_items/2/quantity invalid_format',
    '/line_items/2/unit_amount invalid_type',
    '/line_items/3 invalid_type',
    '/metadata invalid_type',
    '/notes too_long',
    '/number invalid_format',
    '/payment_url invalid_format',
    '/status invalid_enum',
  ])
})

t.test('an amount must be an integer in minor units', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: debtor_id } = await testAccount.createDebtor()
  const outcomeOf = async (amount: string) => {
    const body = `{"debtor_id":"${debtor_id}","currency":"EUR","amount":${amount}}`
    const headers = { 'content-type': 'application/json' }
    const { json } = await testAccount.call('POST', '/api/v1/invoices', { headers, body })
    return json['errors'] ?? json['amount']
  }
  for (const amount of ['"100"', '1.5', 'true', 'null', '[1]', '{}']) {
    matches(t, await outcomeOf(amount), [{ pointer: '/amount', code: 'invalid_type' }], amount)
  }
  for (const amount of ['0', '-1', '1000000000000', '9007199254740993', '1e999']) {
    matches(t, await outcomeOf(amount), [{ pointer: '/amount', code: 'out_of_range' }], amount)
  }
  t.equal(await outcomeOf('100.0'), 100)
  t.equal(await outcomeOf('1e2'), 100)
  t.equal(await outcomeOf('999999999999'), 999_999_999_999)
})

t.test('an invoice requires an amount or lines, and a debtor', async (t) => {
  const testAccount = await openTestAccount(t)
  const { json } = await testAccount.post('/api/v1/invoices', { currency: 'EUR' })
  matches(t, json, {
    errors: [
      { pointer: '/amount', code: 'required' },
      { pointer: '/debtor_id', code: 'required' },
    ],
  })
})

t.test('a debtor is referenced by id or external id, and must belong to the account', async (t) => {
  const testAccount = await openTestAccount(t)
  const debtor = await testAccount.createDebtor({ external_id: 'C-1' })
  t.equal(
    (await testAccount.createInvoice({ debtor_external_id: 'C-1', debtor_id: null })).debtor_id,
    debtor.id,
  )
  const foreign = await (await testAccount.otherAccount()).createDebtor({ external_id: 'C-2' })
  for (const [name, value] of [
    ['debtor_id', foreign.id],
    ['debtor_id', 'nobody'],
    ['debtor_external_id', 'C-2'],
  ] as const) {
    const body = { [name]: value, currency: 'EUR', amount: 1 }
    const { status, json } = await testAccount.post('/api/v1/invoices', body)
    t.equal(status, 422)
    matches(t, json, {
      code: 'debtor_not_found',
      errors: [{ pointer: `/${name}`, code: 'debtor_not_found' }],
    })
  }
})

t.test('violations of several business rules are reported together', async (t) => {
  const testAccount = await openTestAccount(t)
  const { json } = await testAccount.post('/api/v1/invoices', {
    debtor_id: 'nobody',
    currency: 'EUR',
    amount: 1,
    line_items: [LINE],
    due_date: '2026-11-20',
  })
  matches(t, json, {
    code: 'validation_failed',
    errors: [
      { pointer: '/amount', code: 'total_mismatch' },
      { pointer: '/due_date', code: 'out_of_range' },
      { pointer: '/debtor_id', code: 'debtor_not_found' },
    ],
  })
})

t.test('numbers and external ids are unique in the account', async (t) => {
  const testAccount = await openTestAccount(t)
  const first = await testAccount.createInvoice({ number: '2026-1', external_id: 'x' })
  const body = { debtor_id: first.debtor_id, currency: 'EUR', amount: 1 }
  const byNumber = await testAccount.post('/api/v1/invoices', { ...body, number: '2026-1' })
  t.equal(byNumber.status, 409)
  matches(t, byNumber.json, { code: 'duplicate_invoice_number', existing_id: first.id })
  const byExternalId = await testAccount.post('/api/v1/invoices', { ...body, external_id: 'x' })
  t.equal(byExternalId.status, 409)
  matches(t, byExternalId.json, { code: 'duplicate_external_id', existing_id: first.id })
  // Regression: if both were in use, PostgreSQL reported the number, and SQLite the external id.
  const other = await testAccount.createInvoice({ number: '2026-2' })
  const both = { ...body, number: other.number, external_id: 'x' }
  const byBoth = await testAccount.post('/api/v1/invoices', both)
  matches(t, byBoth.json, { code: 'duplicate_external_id', existing_id: first.id })
  const others = await testAccount.otherAccount()
  t.equal((await others.createInvoice({ number: '2026-1', external_id: 'x' })).number, '2026-1')
})

t.test('generated numbers skip numbers that the client has assigned', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: debtor_id } = await testAccount.createDebtor()
  for (let number = 2; number <= 24; number++) {
    await testAccount.createInvoice({
      debtor_id,
      number: `INV-0000${String(number).padStart(2, '0')}`,
    })
  }
  t.equal((await testAccount.createInvoice({ debtor_id })).number, 'INV-000001')
  t.equal((await testAccount.createInvoice({ debtor_id })).number, 'INV-000025')
  t.equal((await testAccount.createInvoice({ debtor_id })).number, 'INV-000026')
})

t.test('a rejected invoice does not use up a number', async (t) => {
  const testAccount = await openTestAccount(t)
  const first = await testAccount.createInvoice({ external_id: 'x' })
  const body = { debtor_id: first.debtor_id, currency: 'EUR', amount: 1, external_id: 'x' }
  t.equal((await testAccount.post('/api/v1/invoices', body)).status, 409)
  t.equal((await testAccount.createInvoice()).number, 'INV-000002')
})

t.test(
  'overdue depends on the date in the account’s time zone; a draft is never overdue',
  async (t) => {
    const testAccount = await openTestAccount(t, { timezone: 'America/Los_Angeles' })
    const { id: debtor_id } = await testAccount.createDebtor()
    const dates = { debtor_id, issue_date: '2026-11-01', due_date: '2026-11-20' }
    const open = await testAccount.createInvoice(dates)
    const draft = await testAccount.createInvoice({ ...dates, status: 'draft' })
    testAccount.backend.now = new Date('2026-11-21T07:59:00Z')
    matches(t, await testAccount.read(`/api/v1/invoices/${open.id}`), {
      is_overdue: false,
      days_past_due: 0,
    })
    testAccount.backend.now = new Date('2026-11-23T08:00:00Z')
    matches(t, await testAccount.read(`/api/v1/invoices/${open.id}`), {
      is_overdue: true,
      days_past_due: 3,
    })
    matches(t, await testAccount.read(`/api/v1/invoices/${draft.id}`), { is_overdue: false })
    const ids = async (query: string) =>
      (await testAccount.read(`/api/v1/invoices?${query}`)).data.map(({ id }: { id: string }) => id)
    t.strictSame(await ids('overdue=true'), [open.id])
    t.strictSame(await ids('overdue=false'), [draft.id])
  },
)

t.test(
  'overdue invoices are listed in the order of creation, whether or not their events are recorded',
  async (t) => {
    const testAccount = await openTestAccount(t, { timezone: 'Asia/Tokyo' })
    const { database } = testAccount.backend
    const { id: debtor_id } = await testAccount.createDebtor()
    const created: { id: string; due_date: string }[] = []
    const create = async (days: readonly number[]) => {
      for (const day of days) {
        const dates = { issue_date: '2026-11-01', due_date: `2026-11-${day}` }
        created.push(await testAccount.createInvoice({ debtor_id, ...dates }))
        testAccount.backend.now = new Date(testAccount.backend.now.getTime() + 1000)
      }
    }
    const dueBefore = (today: string) =>
      created.filter(({ due_date }) => due_date < today).map(({ id }) => id)
    const idsOf = ({ data }: Json) => data.map(({ id }: { id: string }) => id)
    const readAllPages = async (query: string) => {
      const first = `/api/v1/invoices?overdue=true&limit=2&${query}`
      const ids: string[] = []
      let page = await testAccount.read(first)
      while (page.has_more) {
        ids.push(...idsOf(page))
        page = await testAccount.read(`${first}&cursor=${page.next_cursor}`)
      }
      return [...ids, ...idsOf(page)]
    }

    // It is the 22nd in Tokyo.
    testAccount.backend.now = new Date('2026-11-21T20:00:00Z')
    await create([10, 25, 21, 22, 20])
    await recordOverdueEvents({ database, log: SILENT }, testAccount.backend.now)
    await create([19, 21, 26, 15])
    const overdue = dueBefore('2026-11-22')
    t.equal(overdue.length, 6)
    t.strictSame(await readAllPages('sort=created_at'), overdue)
    t.strictSame(await readAllPages('sort=-created_at'), overdue.toReversed())
    const since = '2026-11-21T20:00:02Z'
    t.strictSame(await readAllPages(`sort=created_at&created_since=${since}`), overdue.slice(1))
    t.strictSame(await readAllPages(`sort=created_at&created_before=${since}`), overdue.slice(0, 1))
    t.strictSame(await readAllPages('sort=created_at&status=open'), overdue)

    const timezone = 'America/Los_Angeles'
    await database.transaction((tx) => tx.updateTable('accounts').set({ timezone }).execute())
    t.strictSame(
      await readAllPages('sort=created_at'),
      dueBefore('2026-11-21'),
      'it is the 21st in Los Angeles',
    )
    await testAccount.create('/api/v1/payments', {
      amount: 10_000,
      currency: 'EUR',
      invoice_id: overdue[0],
    })
    t.strictSame(await readAllPages('sort=created_at'), dueBefore('2026-11-21').slice(1))
  },
)

t.test('invoices are found by each filter', async (t) => {
  const testAccount = await openTestAccount(t)
  const a = await testAccount.createInvoice({
    number: 'A',
    external_id: 'xa',
    due_date: '2026-12-01',
  })
  const b = await testAccount.createInvoice({ number: 'B', currency: 'USD', status: 'draft' })
  const numbers = async (query: string) =>
    (await testAccount.read(`/api/v1/invoices?${query}`)).data.map(
      ({ number }: { number: string }) => number,
    )
  t.strictSame(await numbers('number=A'), ['A'])
  t.strictSame(await numbers('external_id=xa'), ['A'])
  t.strictSame(await numbers(`debtor_id=${b.debtor_id}`), ['B'])
  t.strictSame(await numbers('status=open,draft'), ['B', 'A'])
  t.strictSame(await numbers('status=draft'), ['B'])
  t.strictSame(await numbers('currency=usd'), ['B'])
  t.strictSame(await numbers('currency=ZZZ'), [])
  t.strictSame(await numbers('due_since=2026-12-01&due_before=2026-12-02'), ['A'])
  t.strictSame(await numbers(`debtor_id=${a.id}`), [])
})

t.test('malformed ids, unknown ids and ids of another account get the same response', async (t) => {
  const testAccount = await openTestAccount(t)
  const foreign = await (await testAccount.otherAccount()).createInvoice()
  const texts = await Promise.all(
    ['x', 'inv_01M481X3DTFXGMXYBP2GD0M5P8', foreign.id].map(async (id) => {
      const headers = { 'x-request-id': 'same' }
      const { status, text } = await testAccount.call('GET', `/api/v1/invoices/${id}`, { headers })
      return `${status} ${text}`
    }),
  )
  matches(t, texts[0], /^404 .*"code":"not_found"/)
  t.equal(new Set(texts).size, 1)
})
