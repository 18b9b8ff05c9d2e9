// Invoices, payments, balances, totals and events agree after any sequence of operations with money.
import t from 'tap'
import { setApplyCredit } from '../../../backend/accounts/apply-credit.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { Transaction } from '../../../backend/database/tables.ts'
import { readDueByAge } from '../../../backend/debtors/due-totals.ts'
import { updateAllTotals } from '../../../backend/debtors/ledger-totals.ts'
import {
  disputeInvoice,
  finalizeInvoice,
  resolveDispute,
  resumeInvoice,
  voidInvoice,
  writeOffInvoice,
} from '../../../backend/invoices/actions.ts'
import { creditInvoice } from '../../../backend/invoices/credit-invoice.ts'
import { editInvoice } from '../../../backend/invoices/edit-invoice.ts'
import { allocatePayment, takeBackAllocation } from '../../../backend/payments/reallocation.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import type { Json, TestAccount } from '../../fixtures/accounts/test-account.ts'
import { openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { fc } from '../../fixtures/properties.ts'

const RUNS = Number(process.env['MONEY_RUNS'] ?? 30)
const CURRENCIES = ['EUR', 'EUR', 'EUR', 'JPY'] as const
const AMOUNT = 1000

const ACTIONS = { voidInvoice, writeOffInvoice, disputeInvoice, resolveDispute }

const invoice = fc.nat({ max: CURRENCIES.length - 1 })
const payment = fc.nat({ max: 2 })
const amount = fc.integer({ min: 1, max: 1300 })
const arbitraryStep = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('pay'),
      invoices: fc.uniqueArray(invoice, { minLength: 1, maxLength: 2 }),
      amount,
      surplus: fc.constantFrom(0, 0, 300),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('pay on account'),
      currency: fc.constantFrom(...CURRENCIES),
      amount,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('allocate'),
      payment,
      invoice,
      amount: fc.constantFrom(50, 100, AMOUNT),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('take back'), payment, invoice }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('reverse'), payment }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('credit'), invoice, amount }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('change due date'),
      invoice,
      dueDate: fc.constantFrom('2026-10-01', '2026-11-20', '2026-12-01'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('finalize', 'resume'), invoice }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('apply credit'), on: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('update totals') }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('act'),
      action: fc.constantFrom(...(Object.keys(ACTIONS) as (keyof typeof ACTIONS)[])),
      invoice,
    }),
  },
)
type Step = typeof arbitraryStep extends fc.Arbitrary<infer T> ? T : never

/** A debtor with its invoices and payments, and the steps that change them. */
async function createLedger(testAccount: TestAccount) {
  const { accountId, backend } = testAccount
  const debtor = await testAccount.createDebtor()
  const invoiceIds: string[] = []
  for (const [n, currency] of CURRENCIES.entries()) {
    const status = n === 1 ? 'draft' : 'open'
    const dates = { issue_date: '2026-09-01', due_date: `2026-1${n % 3}-15` }
    const fields = { debtor_id: debtor.id, amount: AMOUNT, currency, status, ...dates }
    invoiceIds.push((await testAccount.createInvoice(fields)).id)
  }
  const paymentIds: string[] = []
  const actionContext = () => ({ actor: OPERATOR, now: backend.now })
  await backend.database.transaction((tx) =>
    setApplyCredit(tx, accountId, 'manual', actionContext()),
  )

  async function pay(body: object): Promise<void> {
    const { status, json, text } = await testAccount.post('/api/v1/payments', body)
    if (status === 201) paymentIds.push(String(json['id']))
    else if (![409, 422].includes(status)) throw new Error(`${status}: ${text}`)
  }

  async function change(tx: Transaction, step: Step): Promise<unknown> {
    if (step.do === 'apply credit') {
      const setting = step.on ? 'oldest_first' : 'manual'
      return setApplyCredit(tx, accountId, setting, actionContext())
    }
    const paymentId = ('payment' in step && paymentIds[step.payment]) || 'none'
    const invoiceId = ('invoice' in step && invoiceIds[step.invoice]) || 'none'
    switch (step.do) {
      case 'allocate': {
        const wanted = [{ invoiceId, amount: step.amount }]
        return allocatePayment(tx, accountId, paymentId, wanted, actionContext())
      }
      case 'take back':
        return takeBackAllocation(
          tx,
          accountId,
          paymentId,
          { invoiceId, reason: 'Wrong' },
          actionContext(),
        )
      case 'reverse':
        return reversePayment(tx, accountId, paymentId, 'It bounced', actionContext())
      case 'credit': {
        const credit = { amount: step.amount, reason: 'Damaged' }
        return creditInvoice(tx, accountId, invoiceId, credit, actionContext())
      }
      case 'change due date':
        return editInvoice(tx, accountId, invoiceId, { dueDate: step.dueDate }, actionContext())
      case 'finalize':
        return finalizeInvoice(tx, accountId, invoiceId, actionContext())
      case 'resume':
        return resumeInvoice(tx, accountId, invoiceId, actionContext())
      case 'act':
        return ACTIONS[step.action](tx, accountId, invoiceId, 'Why not', actionContext())
    }
    return undefined
  }

  return {
    debtorId: String(debtor.id),
    async perform(step: Step): Promise<void> {
      backend.now = new Date(backend.now.getTime() + 60_000)
      if (step.do === 'update totals') return updateAllTotals(backend.database)
      if (step.do === 'pay') {
        const [first = 0] = step.invoices
        return pay({
          currency: CURRENCIES[first],
          amount: step.amount * step.invoices.length + step.surplus,
          allocations: step.invoices.map((n) => ({
            invoice_id: invoiceIds[n],
            amount: step.amount,
          })),
          allow_overpayment: step.surplus > 0,
        })
      }
      if (step.do === 'pay on account') {
        return pay({ debtor_id: debtor.id, currency: step.currency, amount: step.amount })
      }
      await backend.database
        .transaction((tx) => change(tx, step))
        .catch((error: unknown) => {
          if (!(error instanceof Problem && error.status < 500)) throw error
        })
    },
  }
}

function must(condition: boolean, problem: string, object: unknown): void {
  if (!condition) throw new Error(`${problem}: ${JSON.stringify(object)}`)
}

const sum = <T>(rows: readonly T[], amountOf: (row: T) => number): number =>
  rows.reduce((total, row) => total + amountOf(row), 0)

const isOpen = ({ status }: Json) => status === 'open' || status === 'partially_paid'

function checkAmounts(invoices: readonly Json[], payments: readonly Json[]): void {
  const recorded = payments.filter(({ status }) => status === 'recorded')
  for (const row of payments) {
    const allocated = sum(row.allocations, ({ amount }: Json) => amount)
    must(allocated + row.unapplied_amount === row.amount, 'money is lost or doubled', row)
    must(row.unapplied_amount >= 0, 'more than the payment is allocated', row)
  }
  for (const row of invoices) {
    const allocations = recorded
      .filter(({ currency }) => currency === row.currency)
      .flatMap((each): Json[] => each.allocations)
      .filter(({ invoice_id }) => invoice_id === row.id)
    const { amount, amount_paid, amount_credited, amount_due, status } = row
    must(amount_paid === sum(allocations, (each) => each.amount), 'wrong amount_paid', row)
    must(amount_due === amount - amount_paid - amount_credited, 'wrong amount_due', row)
    must(amount_due >= 0, 'more than the invoice is paid', row)
    must((status === 'paid') === (amount_due === 0), 'wrong status', row)
    must((status === 'paid') === (row.paid_at !== null), 'wrong paid_at', row)
    must(status !== 'open' || amount_paid === 0, 'open, but partially paid', row)
    must(status !== 'partially_paid' || amount_paid > 0, 'partially paid without payment', row)
    must(isOpen(row) || row.chasing.status === 'stopped', 'chased, but not open', row)
  }
}

function checkBalances(
  { balances }: Json,
  invoices: readonly Json[],
  payments: readonly Json[],
): void {
  for (const currency of new Set(CURRENCIES)) {
    const open = invoices.filter((row) => row.currency === currency && isOpen(row))
    const recorded = payments.filter(
      (row) => row.currency === currency && row.status === 'recorded',
    )
    const expected = {
      outstanding: sum(open, (row) => row.amount_due),
      overdue: sum(
        open.filter((row) => row.is_overdue),
        (row) => row.amount_due,
      ),
      unapplied: sum(recorded, (row) => row.unapplied_amount),
    }
    const found = balances.find((row: Json) => row.currency === currency)
    for (const [name, value] of Object.entries(expected)) {
      must((found?.[name] ?? 0) === value, `wrong ${name} in ${currency}`, { found, expected })
    }
  }
}

async function checkTotals({ accountId, backend }: TestAccount): Promise<void> {
  const { database } = backend
  await updateAllTotals(database)
  const rows = await database.read
    .selectFrom('invoices')
    .select(['currency', 'amount_due', 'due_date', 'status'])
    .where('account_id', '=', accountId)
    .execute()
  const today = backend.now.toISOString().slice(0, 10)
  const totals = await readDueByAge(database.read, accountId, today)
  for (const currency of new Set(CURRENCIES)) {
    const open = rows.filter((row) => row.currency === currency && isOpen(row))
    const overdue = open.filter(({ due_date }) => due_date < today)
    const found = totals.find((row) => row.currency === currency)
    for (const [name, expected] of Object.entries({ outstanding: open, overdue })) {
      const total = { amount: sum(expected, (row) => row.amount_due), invoices: expected.length }
      const shown = (name === 'overdue' ? found?.overdue : found?.outstanding) ?? {
        amount: 0,
        invoices: 0,
      }
      must(
        shown.amount === total.amount && shown.invoices === total.invoices,
        `wrong ${name} total in ${currency}`,
        { shown, total },
      )
    }
  }
}

/** The members of invoices and payments that only operations with money change. */
const MONEY_MEMBERS = [
  ...['status', 'amount_paid', 'amount_credited', 'amount_due', 'paid_at', 'due_date'],
  ...['unapplied_amount', 'allocations'],
]

/** Each event of an object continues where its previous event ended, and the last one ends with the object. */
async function checkEvents({ backend }: TestAccount, object: Json): Promise<void> {
  const events = await backend.database.read
    .selectFrom('webhook_events')
    .select('body')
    .where('subject_id', '=', object.id)
    .orderBy('id')
    .execute()
  const moneyOf = (row: Json) => JSON.stringify(MONEY_MEMBERS.map((name) => row[name] ?? null))
  let last: Json
  for (const { body } of events) {
    const { type, data }: Json = JSON.parse(body)
    // A credit that settles an invoice has two events with the same change.
    const isSameChange = last?.revision === data.revision
    const before = { ...data.object, ...data.previous }
    if (last !== undefined && !isSameChange) {
      must(data.revision > last.revision, `${type} has an earlier revision`, { last, data })
      must(moneyOf(before) === moneyOf(last), `${type} skips a change`, { last, data })
    }
    last = data.object
    // The event of the payment reports a partial payment on an invoice that is written off.
    if (last.status === 'written_off') return
  }
  must(moneyOf(last) === moneyOf(object), 'the last event differs from the object', {
    last,
    object,
  })
}

t.test('no cent is lost or doubled, and events report each change', async (t) => {
  const webhooks = await openWebhooks(t)
  await webhooks.createEndpoint('https://erp.receivables.io/events')
  const { testAccount } = webhooks
  testAccount.backend.now = new Date('2026-11-21T10:15:00.000Z')
  await fc.assert(
    fc.asyncProperty(
      fc.array(arbitraryStep, { minLength: 1, maxLength: 25, size: 'max' }),
      async (steps) => {
        const ledger = await createLedger(testAccount)
        for (const step of steps) await ledger.perform(step)
        const { debtorId } = ledger
        const { data: payments } = await testAccount.read(`/api/v1/payments?debtor_id=${debtorId}`)
        const { data: invoices } = await testAccount.read(`/api/v1/invoices?debtor_id=${debtorId}`)
        checkAmounts(invoices, payments)
        checkBalances(await testAccount.read(`/api/v1/debtors/${debtorId}`), invoices, payments)
        await checkTotals(testAccount)
        for (const object of [...invoices, ...payments]) await checkEvents(testAccount, object)
      },
    ),
    { numRuns: RUNS },
  )
  t.pass(`${RUNS} histories`)
})
