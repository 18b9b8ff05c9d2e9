// Payments that arrive at the same time have the same results as payments that arrive one after another.
import t from 'tap'
import { setApplyCredit } from '../../../backend/accounts/apply-credit.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import {
  type Json,
  openTestAccount,
  type TestAccount,
} from '../../fixtures/accounts/test-account.ts'
import { until } from '../../fixtures/service/until.ts'

const PAYMENTS = '/api/v1/payments'
const AMOUNT = 1000

function allocationsOf({ json }: { readonly json: Json }): readonly Json[] {
  return json['allocations']
}

/** Sends the payments while another transaction runs, so that all of them wait for the writer of SQLite. */
async function sendTogether({ backend, post }: TestAccount, payments: readonly Json[]) {
  const { database } = backend
  const hasBegun = Promise.withResolvers<void>()
  const mayEnd = Promise.withResolvers<void>()
  const blocker = database.transaction(() => {
    hasBegun.resolve()
    return mayEnd.promise
  })
  await hasBegun.promise
  const responses = Promise.all(payments.map((payment) => post(PAYMENTS, payment)))
  if (!database.isConcurrent) {
    await until(() => database.activity().waiting === payments.length, 'all payments wait')
  }
  mayEnd.resolve()
  await blocker
  return await responses
}

t.test('each of many payments to the invoices of several customers is recorded once', async (t) => {
  const testAccount = await openTestAccount(t)
  const debtors = await Promise.all(Array.from({ length: 5 }, () => testAccount.createDebtor()))
  const invoices = await Promise.all(
    debtors.flatMap(({ id }) =>
      [1, 2].map(() => testAccount.createInvoice({ debtor_id: id, amount: AMOUNT })),
    ),
  )
  const pay = (invoice: Json, n: number) =>
    testAccount.post(
      PAYMENTS,
      {
        invoice_id: invoice.id,
        amount: 300,
        currency: 'EUR',
        // Payments with an external id are written by other statements, and some of them are rejected.
        ...(n === 1 ? { external_id: `bank-${invoice.debtor_id}` } : {}),
      },
      { 'idempotency-key': `${invoice.id}-${n}` },
    )
  const all = invoices.flatMap((invoice) => [0, 1, 2, 3].map((n) => ({ invoice, n })))
  // Each request is sent twice.
  const responses = await Promise.all([...all, ...all].map(({ invoice, n }) => pay(invoice, n)))
  for (const [index, response] of responses.slice(0, all.length).entries()) {
    const repeated = responses[index + all.length]
    // A rejection is not stored, so a repetition may be rejected for another reason.
    t.equal(repeated?.status === 201, response.status === 201)
    if (response.status === 201) t.equal(repeated?.text, response.text)
  }
  const recorded = responses.slice(0, all.length).filter(({ status }) => status === 201)
  for (const invoice of invoices) {
    const paid = recorded.filter(
      (response) => allocationsOf(response)[0]?.invoice_id === invoice.id,
    )
    const { amount_paid, revision } = await testAccount.read(`/api/v1/invoices/${invoice.id}`)
    t.equal(amount_paid, paid.length * 300)
    t.equal(revision, 1 + paid.length)
  }
  for (const debtor of debtors) {
    const rejections = responses
      .slice(0, all.length)
      .filter((_, index) => all[index]?.invoice.debtor_id === debtor.id)
      .filter(({ status }) => status !== 201)
      .map(({ json }) => json['code'])
    // Of each invoice, one payment is rejected: it is more than the amount due, or the other invoice's payment has its
    // external id.
    t.equal(rejections.length, 2)
    const codes = ['payment_exceeds_balance', 'duplicate_external_id']
    t.strictSame(
      rejections.filter((code) => !codes.includes(String(code))),
      [],
    )
    const { balances, revision } = await testAccount.read(`/api/v1/debtors/${debtor.id}`)
    const ofDebtor = recorded.filter(({ json }) => json['debtor_id'] === debtor.id)
    t.equal(balances[0].outstanding, 2 * AMOUNT - 300 * ofDebtor.length)
    t.equal(revision, 1 + 2 + ofDebtor.length)
  }
  const list = await testAccount.read(`${PAYMENTS}?limit=100`)
  t.strictSame(
    list['data'].map(({ id }: Json) => id).sort(),
    recorded.map(({ json }) => json['id']).sort(),
  )
})

t.test('the same money is not allocated twice by two payments of one customer', async (t) => {
  const testAccount = await openTestAccount(t)
  const { accountId, backend } = testAccount
  await backend.database.transaction((tx) =>
    setApplyCredit(tx, accountId, 'oldest_first', { actor: OPERATOR, now: backend.now }),
  )
  const invoices = await Promise.all(
    Array.from({ length: 20 }, () => testAccount.createInvoice({ amount: AMOUNT })),
  )
  const money = { amount: AMOUNT, currency: 'EUR' }
  const targets = invoices.flatMap(({ id, debtor_id }) => [
    { debtor_id },
    { invoice_id: id },
    { allocations: [{ invoice_id: id, amount: AMOUNT }] },
  ])
  const responses = await sendTogether(
    testAccount,
    targets.map((target) => ({ ...money, ...target })),
  )
  for (const [index, { id, debtor_id }] of invoices.entries()) {
    const ofDebtor = responses.slice(3 * index, 3 * index + 3)
    // Money on account is always accepted.
    t.equal(ofDebtor[0]?.status, 201)
    const recorded = ofDebtor.filter(({ status }) => status === 201)
    const allocated = recorded
      .flatMap(allocationsOf)
      .reduce((sum, { amount }) => sum + Number(amount), 0)
    t.equal(allocated, AMOUNT)
    const { amount_due } = await testAccount.read(`/api/v1/invoices/${id}`)
    t.equal(amount_due, 0)
    const unapplied = recorded.reduce((sum, { json }) => sum + Number(json['unapplied_amount']), 0)
    t.equal(unapplied, (recorded.length - 1) * AMOUNT)
    const { balances } = await testAccount.read(`/api/v1/debtors/${debtor_id}`)
    t.equal(balances[0]?.outstanding ?? 0, 0)
    t.equal(balances[0]?.unapplied ?? 0, unapplied)
  }
})

// Regression: the validated body contains the normalized id, but the payments ran as those of two customers.
t.test(
  'two payments that spell the id of the customer differently follow each other',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { accountId, backend } = testAccount
    await backend.database.transaction((tx) =>
      setApplyCredit(tx, accountId, 'oldest_first', { actor: OPERATOR, now: backend.now }),
    )
    let debtor = await testAccount.createDebtor()
    while (!debtor.id.includes('K')) debtor = await testAccount.createDebtor()
    const invoice = await testAccount.createInvoice({ debtor_id: debtor.id, amount: AMOUNT })
    // The Kelvin sign becomes a K when it is normalized.
    const ids = [debtor.id, debtor.id.replace('K', '\u212a')]
    const responses = await sendTogether(
      testAccount,
      ids.map((debtor_id) => ({ debtor_id, amount: 300, currency: 'EUR' })),
    )
    for (const { status } of responses) t.equal(status, 201)
    const { amount_paid } = await testAccount.read(`/api/v1/invoices/${invoice.id}`)
    t.equal(amount_paid, 600)
  },
)
