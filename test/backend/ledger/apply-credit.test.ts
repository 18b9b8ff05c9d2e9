// An account can choose `oldest_first`: then the surplus of a payment is allocated to the oldest invoices.
import t, { type Test } from 'tap'
import { setApplyCredit } from '../../../backend/accounts/apply-credit.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { rejectsWith } from '../../fixtures/matches.ts'

const PAYMENTS = '/api/v1/payments'

async function openWithMode(t: Test, mode = 'oldest_first') {
  const testAccount = await openTestAccount(t)
  const actionContext = { actor: OPERATOR, now: testAccount.backend.now }
  await testAccount.backend.database.transaction((tx) =>
    setApplyCredit(tx, testAccount.accountId, mode, actionContext),
  )
  const { id: debtor_id } = await testAccount.createDebtor()
  const invoiceDue = (due_date: string, fields = {}) =>
    testAccount.createInvoice({ debtor_id, issue_date: '2026-09-01', due_date, ...fields })
  return { testAccount, debtor_id, invoiceDue }
}

t.test('money on account pays open invoices, the oldest due date first', async (t) => {
  const { testAccount, debtor_id, invoiceDue } = await openWithMode(t)
  const newest = await invoiceDue('2026-11-30')
  const oldest = await invoiceDue('2026-10-01')
  const dollars = await invoiceDue('2026-09-02', { currency: 'USD' })
  await invoiceDue('2026-09-02', { status: 'draft' })
  const middle = await invoiceDue('2026-10-02')
  const payment = await testAccount.create(PAYMENTS, { debtor_id, currency: 'EUR', amount: 25_000 })
  t.strictSame(payment.allocations, [
    { invoice_id: oldest.id, amount: 10_000 },
    { invoice_id: middle.id, amount: 10_000 },
    { invoice_id: newest.id, amount: 5000 },
  ])
  t.equal(payment.unapplied_amount, 0)
  t.strictSame(payment.effects.invoices, [
    { id: oldest.id, status: 'paid', amount_due: 0 },
    { id: middle.id, status: 'paid', amount_due: 0 },
    { id: newest.id, status: 'partially_paid', amount_due: 5000 },
  ])
  t.equal((await testAccount.read(`/api/v1/invoices/${dollars.id}`)).status, 'open')
})

// Regression: a payment of a debtor with thousands of open invoices was allocated to all of them, in one transaction
// that blocked the process for seconds, and had more allocations than the API document permits.
t.test('a payment pays at most 100 invoices, and the rest stays on account', async (t) => {
  const { testAccount, debtor_id, invoiceDue } = await openWithMode(t)
  const ids: string[] = []
  for (let n = 0; n < 102; n++) {
    // The invoices of the same due date are paid in the order of their ids.
    const { id } = await invoiceDue(n < 60 ? '2026-10-01' : '2026-10-02', { amount: 100 })
    ids.push(id)
  }
  const [named] = ids.slice(-1)
  const payment = await testAccount.create(PAYMENTS, {
    ...{ currency: 'EUR', amount: 11_000 },
    allocations: [{ invoice_id: named, amount: 50 }],
  })
  t.strictSame(
    payment.allocations.map((allocation: { invoice_id: string }) => allocation.invoice_id).sort(),
    [...ids.slice(0, 99), named],
  )
  t.equal(payment.unapplied_amount, 11_000 - 99 * 100 - 50)
  const others = await testAccount.create(PAYMENTS, { debtor_id, currency: 'EUR', amount: 500 })
  t.equal(others.allocations.length, 3)
})

t.test(
  'the surplus of a payment pays other invoices, after the invoice that the payment names',
  async (t) => {
    const { testAccount, invoiceDue } = await openWithMode(t)
    const named = await invoiceDue('2026-10-01')
    const other = await invoiceDue('2026-10-02')
    const payment = await testAccount.create(PAYMENTS, {
      ...{ currency: 'EUR', amount: 25_000 },
      allocations: [{ invoice_id: named.id, amount: 4000 }],
    })
    t.strictSame(payment.allocations, [
      { invoice_id: named.id, amount: 10_000 },
      { invoice_id: other.id, amount: 10_000 },
    ])
    t.equal(payment.unapplied_amount, 5000)
  },
)

t.test('a small surplus is added to the share of the invoice that the payment names', async (t) => {
  const { testAccount, invoiceDue } = await openWithMode(t)
  const named = await invoiceDue('2026-10-01')
  await invoiceDue('2026-10-02')
  const payment = await testAccount.create(PAYMENTS, {
    ...{ currency: 'EUR', amount: 7000 },
    allocations: [{ invoice_id: named.id, amount: 4000 }],
  })
  t.strictSame(payment.allocations, [{ invoice_id: named.id, amount: 7000 }])
  t.equal(payment.unapplied_amount, 0)
})

t.test('in manual mode, money stays on account; an unknown mode is rejected', async (t) => {
  const { testAccount, debtor_id, invoiceDue } = await openWithMode(t, 'manual')
  await invoiceDue('2026-10-01')
  const payment = await testAccount.create(PAYMENTS, { debtor_id, currency: 'EUR', amount: 100 })
  t.strictSame([payment.allocations, payment.unapplied_amount], [[], 100])
  await rejectsWith(t, openWithMode(t, 'newest_first'), { code: 'validation_failed' })
})
