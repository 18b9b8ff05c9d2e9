import t from 'tap'
import { findDebtorsByWords } from '../../../backend/debtors/find-debtors.ts'
import { updateAllTotals } from '../../../backend/debtors/ledger-totals.ts'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'

const ALL_FIELDS = {
  external_id: 'C-10042',
  name: '  Jansen Bouw B.V. ',
  email: 'AP@JansenBouw.Example',
  phone: '+31205550142',
  language: 'NL-be',
  currency: 'eur',
  payment_terms_days: 14,
  timezone: 'Europe/Brussels',
  address: { line1: 'Keizersgracht 1', city: 'Amsterdam', country: 'NL', region: null },
  tax_id: 'NL001234567B01',
  company_number: '',
  metadata: { erp_id: '10042' },
}

t.test('a debtor is created with the sent values, which are normalized', async (t) => {
  const testAccount = await openTestAccount(t)
  const response = await testAccount.post('/api/v1/debtors', ALL_FIELDS)
  t.equal(response.status, 201)
  t.equal(response.headers.get('location'), `/api/v1/debtors/${response.json['id']}`)
  t.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
  t.equal(response.headers.get('cache-control'), 'no-store')
  matches(t, response.json, {
    object: 'debtor',
    id: /^deb_[0-9A-Z]{26}$/,
    external_id: 'C-10042',
    name: 'Jansen Bouw B.V.',
    email: 'AP@jansenbouw.example',
    language: 'nl-BE',
    currency: 'EUR',
    currency_exponent: 2,
    payment_terms_days: 14,
    timezone: 'Europe/Brussels',
    address: {
      line1: 'Keizersgracht 1',
      line2: null,
      city: 'Amsterdam',
      region: null,
      postal_code: null,
      country: 'NL',
    },
    tax_id: 'NL001234567B01',
    company_number: null,
    status: 'active',
    is_demo: false,
    contactability: { email: 'ok' },
    chasing: { status: 'active', reason: null, until: null },
    balances: [],
    erased_at: null,
    metadata: { erp_id: '10042' },
    created_at: '2026-11-21T10:15:00.000Z',
    updated_at: '2026-11-21T10:15:00.000Z',
  })
  t.equal((await testAccount.get(`/api/v1/debtors/${response.json['id']}`)).text, response.text)
})

t.test('only a name is required; null means omitted', async (t) => {
  const testAccount = await openTestAccount(t)
  const debtor = await testAccount.create('/api/v1/debtors', {
    name: 'Aoki',
    email: null,
    address: null,
  })
  matches(t, debtor, {
    email: null,
    contactability: { email: 'missing' },
    address: null,
    currency_exponent: null,
    metadata: {},
  })
})

t.test('a debtor of a demo account is sample data', async (t) => {
  const testAccount = await openTestAccount(t, { isDemo: true })
  t.equal((await testAccount.createDebtor()).is_demo, true)
})

t.test('every invalid field is reported', async (t) => {
  const testAccount = await openTestAccount(t)
  const { status, json } = await testAccount.post('/api/v1/debtors', {
    external_id: 'C 1',
    name: ' \t ',
    email: 'Jansen <ap@jansen.example>',
    phone: '0205550142',
    language: 'dutch_',
    currency: 5,
    payment_terms_days: 366,
    timezone: '+01:00',
    address: { line1: 'x'.repeat(201), country: 'XX', street: 'y' },
    tax_id: 'a\u0000b',
    company_number: '\ud800',
    metadata: { ok: 'x', bad: 1 },
    'e-mail': null,
  })
  t.equal(status, 422)
  matches(t, json, { code: 'validation_failed' })
  const errors = Array.isArray(json['errors']) ? json['errors'] : []
  const detailAt = (path: string) => errors.find(({ pointer }) => pointer === path)?.detail
  matches(t, detailAt('/tax_id'), /without control characters/)
  // Regression: this error was about control characters too.
  matches(t, detailAt('/company_number'), /without lone surrogates/)
  t.strictSame(errors.map(({ pointer, code }) => `${pointer} ${code}`).sort(), [
    '/address/country invalid_format',
    '/address/line1 too_long',
    '/address/street unknown_field',
    '/company_number invalid_format',
    '/currency invalid_type',
    '/e-mail unknown_field',
    '/email invalid_format',
    '/external_id invalid_format',
    '/language invalid_format',
    '/metadata/bad invalid_type',
    '/name invalid_format',
    '/payment_terms_days out_of_range',
    '/phone invalid_format',
    '/tax_id invalid_format',
    '/timezone invalid_format',
  ])
})

t.test('lengths are counted in code points, after normalization', async (t) => {
  const testAccount = await openTestAccount(t)
  t.equal((await testAccount.post('/api/v1/debtors', { name: '👷'.repeat(200) })).status, 201)
  matches(t, (await testAccount.post('/api/v1/debtors', { name: '👷'.repeat(201) })).json, {
    errors: [{ pointer: '/name', code: 'too_long' }],
  })
  const debtor = await testAccount.createDebtor({ name: 'Zu\u0308rich' })
  t.equal(debtor.name, 'Z\u00fcrich')
})

t.test('metadata is stored after normalization', async (t) => {
  // Regression: the length was checked after normalization, but the text was stored as it was sent, so values of up to
  // 1000 characters were returned.
  const testAccount = await openTestAccount(t)
  const value = 'u\u0308'.repeat(500)
  const debtor = await testAccount.createDebtor({
    name: 'Globex',
    metadata: { 'Gro\u0308ße': value },
  })
  t.strictSame(debtor.metadata, { 'Gr\u00f6ße': '\u00fc'.repeat(500) })
  const twice = { 'u\u0308': 'a', '\u00fc': 'b' }
  const rejected = await testAccount.post('/api/v1/debtors', { name: 'Globex', metadata: twice })
  matches(t, rejected.json, {
    status: 422,
    errors: [{ pointer: '/metadata/\u00fc', code: 'conflicting_field' }],
  })
})

t.test('a currency without a minor unit is rejected with a specific code', async (t) => {
  const testAccount = await openTestAccount(t)
  const { status, json } = await testAccount.post('/api/v1/debtors', { name: 'a', currency: 'xau' })
  t.equal(status, 422)
  matches(t, json, {
    code: 'unsupported_currency',
    errors: [{ pointer: '/currency', code: 'unsupported_currency' }],
  })
})

t.test('a duplicate external id is rejected with the id of the debtor that has it', async (t) => {
  const testAccount = await openTestAccount(t)
  const first = await testAccount.createDebtor({ external_id: 'C-1' })
  const { status, json } = await testAccount.post('/api/v1/debtors', {
    name: 'b',
    external_id: 'C-1',
  })
  t.equal(status, 409)
  matches(t, json, { code: 'duplicate_external_id', existing_id: first.id })
  const others = await testAccount.otherAccount()
  t.equal((await others.post('/api/v1/debtors', { name: 'b', external_id: 'C-1' })).status, 201)
})

t.test('malformed ids, unknown ids and ids of another account get the same response', async (t) => {
  const testAccount = await openTestAccount(t)
  const foreign = await (await testAccount.otherAccount()).createDebtor()
  const invoice = await testAccount.createInvoice()
  const responses = await Promise.all(
    [
      'x',
      'deb_01M45NCFTPHJZKNWRTY3TNJ3Z5',
      foreign.id,
      foreign.id.toLowerCase(),
      invoice.id,
      '%00',
      '..%2fme',
    ].map((id) =>
      testAccount.call('GET', `/api/v1/debtors/${id}`, { headers: { 'x-request-id': 'same' } }),
    ),
  )
  t.equal(responses[0]?.status, 404)
  matches(t, responses[0]?.json, { code: 'not_found' })
  t.equal(new Set(responses.map(({ text }) => text)).size, 1)
})

t.test(
  'balances are per currency; overdue depends on the date in the account’s time zone',
  async (t) => {
    const testAccount = await openTestAccount(t, { timezone: 'Pacific/Kiritimati' })
    testAccount.backend.now = new Date('2026-11-21T09:00:00Z')
    const { id: debtor_id } = await testAccount.createDebtor()
    const terms = { debtor_id, issue_date: '2026-11-01' }
    await testAccount.createInvoice({ ...terms, amount: 500, due_date: '2026-11-21' })
    await testAccount.createInvoice({ ...terms, amount: 70, due_date: '2026-11-20' })
    await testAccount.createInvoice({
      ...terms,
      amount: 9,
      due_date: '2026-11-20',
      currency: 'KWD',
    })
    await testAccount.createInvoice({ ...terms, amount: 1, status: 'draft' })
    await testAccount.create('/api/v1/payments', { debtor_id, amount: 30, currency: 'JPY' })
    const expected = [
      { currency: 'EUR', currency_exponent: 2, outstanding: 570, overdue: 70, unapplied: 0 },
      { currency: 'JPY', currency_exponent: 0, outstanding: 0, overdue: 0, unapplied: 30 },
      { currency: 'KWD', currency_exponent: 3, outstanding: 9, overdue: 9, unapplied: 0 },
    ]
    t.strictSame((await testAccount.read(`/api/v1/debtors/${debtor_id}`)).balances, expected)
    testAccount.backend.now = new Date('2026-11-21T10:00:00Z')
    const { data } = await testAccount.read('/api/v1/debtors')
    matches(
      t,
      data[0].balances[0],
      { outstanding: 570, overdue: 570 },
      'by now it is the 22nd in Kiritimati',
    )
    t.strictSame(
      (await testAccount.read(`/api/v1/debtors/${debtor_id}`)).balances,
      data[0].balances,
    )
  },
)

t.test(
  'west of UTC, an invoice becomes overdue only at midnight in the account’s time zone',
  async (t) => {
    const testAccount = await openTestAccount(t, { timezone: 'Pacific/Niue' })
    const { id: debtor_id } = await testAccount.createDebtor()
    const terms = { debtor_id, issue_date: '2026-11-01' }
    await testAccount.createInvoice({ ...terms, amount: 500, due_date: '2026-11-20' })
    await testAccount.createInvoice({ ...terms, amount: 70, due_date: '2026-11-19' })
    const overdueAt = async (now: string) => {
      testAccount.backend.now = new Date(now)
      return (await testAccount.read(`/api/v1/debtors/${debtor_id}`)).balances[0].overdue
    }
    t.equal(await overdueAt('2026-11-21T10:59:00Z'), 70)
    t.equal(await overdueAt('2026-11-21T11:00:00Z'), 570)
  },
)

t.test('a new invoice changes updated_at of its debtor; a draft does not', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: debtor_id } = await testAccount.createDebtor()
  const updatedAt = async () => (await testAccount.read(`/api/v1/debtors/${debtor_id}`)).updated_at
  const created = await updatedAt()
  testAccount.backend.now = new Date('2026-11-22T00:00:00.000Z')
  await testAccount.createInvoice({ debtor_id, status: 'draft' })
  t.equal(await updatedAt(), created)
  await testAccount.createInvoice({ debtor_id })
  t.equal(await updatedAt(), '2026-11-22T00:00:00.000Z')
})

t.test('a prefix that ends with a sigma finds names with either form of the letter', async (t) => {
  // Regression: at the end of the prefix, Σ became ς in lower case, which did not match the σ within a name.
  const testAccount = await openTestAccount(t)
  const { accountId, backend } = testAccount
  const museum = await testAccount.createDebtor({ name: 'ΜΟΥΣΕΙΟ' })
  const person = await testAccount.createDebtor({ name: 'Νίκος' })
  await updateAllTotals(backend.database)
  const find = async (prefix: string) => {
    const { data } = await testAccount.read(`/api/v1/debtors?q=${encodeURIComponent(prefix)}`)
    const { read } = backend.database
    const { ids: foundByWord } = await findDebtorsByWords(read, accountId, prefix, 10)
    return [data.map(({ id }: { id: string }) => id), foundByWord]
  }
  for (const prefix of ['ΜΟΥΣ', 'μουσ', 'Μους']) {
    t.strictSame(await find(prefix), [[museum.id], [museum.id]], prefix)
  }
  for (const prefix of ['ΝΊΚΟΣ', 'νίκος', 'νίκοσ']) {
    t.strictSame(await find(prefix), [[person.id], [person.id]], prefix)
  }
})

t.test(
  'debtors are found by the beginning of their name, or by exact values of other fields',
  async (t) => {
    const testAccount = await openTestAccount(t)
    await testAccount.createDebtor({ name: 'Ångström AB', email: 'A@x.example', external_id: '1' })
    await testAccount.createDebtor({ name: 'Angel 100%', email: 'b@x.example' })
    const names = async (query: string) =>
      (await testAccount.read(`/api/v1/debtors?${query}`)).data.map(
        ({ name }: { name: string }) => name,
      )
    t.strictSame(await names('q=%C3%A5NG'), ['Ångström AB'])
    t.strictSame(await names('q=angel+100%25'), ['Angel 100%'])
    t.strictSame(await names('q=_ngel'), [])
    t.strictSame(await names('email=A@X.EXAMPLE'), ['Ångström AB'])
    t.strictSame(await names('email=nobody'), [])
    t.strictSame(await names('external_id=1'), ['Ångström AB'])
    t.strictSame(await names('status=archived'), [])
    t.strictSame(await names('created_since=2026-11-21T11:15:00%2B01:00'), [
      'Angel 100%',
      'Ångström AB',
    ])
    t.strictSame(await names('created_before=2026-11-21T10:15:00Z'), [])
  },
)
