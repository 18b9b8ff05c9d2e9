// Amounts and statuses of invoices stay consistent after any sequence of payments, reversals and other actions.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import {
  disputeInvoice,
  resolveDispute,
  resumeInvoice,
  voidInvoice,
  writeOffInvoice,
} from '../../../backend/invoices/actions.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import { type Json, openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { fc } from '../../fixtures/properties.ts'

const ACTIONS = { voidInvoice, writeOffInvoice, disputeInvoice, resolveDispute }
const INVOICES = 3
const RUNS = 30

type Step =
  | { readonly kind: 'pay'; readonly invoices: readonly number[]; readonly amount: number }
  | { readonly kind: 'reverse'; readonly payment: number }
  | { readonly kind: 'resume'; readonly invoice: number }
  | { readonly kind: keyof typeof ACTIONS; readonly invoice: number }

const invoice = fc.nat({ max: INVOICES - 1 })
const arbitrarySteps = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('pay' as const),
        invoices: fc.uniqueArray(invoice, { minLength: 1, maxLength: 2 }),
        amount: fc.integer({ min: 1, max: 700 }),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant('reverse' as const), payment: fc.nat({ max: 5 }) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('resume' as const), invoice }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom(...(Object.keys(ACTIONS) as (keyof typeof ACTIONS)[])),
        invoice,
      }),
    },
  ),
  { minLength: 1, maxLength: 14 },
)

t.test(
  'invoices and payments are consistent after any payments, reversals and other actions',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { accountId, backend } = testAccount
    const { database } = backend
    const actionContext = () => ({ actor: OPERATOR, now: backend.now })

    async function perform(
      step: Step,
      invoices: readonly Json[],
      payments: string[],
    ): Promise<void> {
      if (step.kind === 'pay') {
        const allocations = step.invoices.map((n) => ({
          invoice_id: invoices[n].id,
          amount: step.amount,
        }))
        const body = { currency: 'EUR', amount: step.amount * allocations.length, allocations }
        const { status, json } = await testAccount.post('/api/v1/payments', body)
        if (status === 201) payments.push(String(json['id']))
        else t.ok([409, 422].includes(status), `rejected with ${status}`)
        return
      }
      await database
        .transaction(async (tx) => {
          if (step.kind === 'reverse') {
            const id = payments[step.payment]
            if (id !== undefined)
              await reversePayment(tx, accountId, id, 'It bounced', actionContext())
          } else if (step.kind === 'resume') {
            await resumeInvoice(tx, accountId, invoices[step.invoice].id, actionContext())
          } else {
            await ACTIONS[step.kind](
              tx,
              accountId,
              invoices[step.invoice].id,
              'Why not',
              actionContext(),
            )
          }
        })
        .catch((error: unknown) => {
          if (!(error instanceof Problem && error.status === 409)) throw error
        })
    }

    async function check(debtorId: string): Promise<void> {
      const { data: payments } = await testAccount.read(`/api/v1/payments?debtor_id=${debtorId}`)
      const { data: invoices } = await testAccount.read(`/api/v1/invoices?debtor_id=${debtorId}`)
      const allocated = new Map<string, number>()
      for (const payment of payments) {
        if (payment.status !== 'recorded') continue
        for (const { invoice_id: id, amount } of payment.allocations) {
          allocated.set(id, (allocated.get(id) ?? 0) + amount)
        }
      }
      let owed = 0
      for (const { id, status, amount, amount_paid, amount_due, paid_at, chasing } of invoices) {
        const reported = JSON.stringify({ status, amount_paid, amount_due, chasing })
        if (amount_paid !== (allocated.get(id) ?? 0))
          throw new Error(`amount_paid is not the allocated amount: ${reported}`)
        if (amount_due !== amount - amount_paid)
          throw new Error(`amount_due is not the unpaid amount: ${reported}`)
        if ((status === 'paid') !== (amount_due === 0))
          throw new Error(`status and amount_due differ: ${reported}`)
        if ((status === 'paid') !== (paid_at !== null))
          throw new Error(`status and paid_at differ: ${reported}`)
        if (status === 'open' && amount_paid > 0)
          throw new Error(`open, but partially paid: ${reported}`)
        if (status === 'partially_paid' && amount_paid === 0)
          throw new Error(`partially_paid, but nothing was paid: ${reported}`)
        const isOpen = status === 'open' || status === 'partially_paid'
        if (isOpen) owed += amount_due
        if (!isOpen && chasing.status !== 'stopped')
          throw new Error(`not open, but chased: ${reported}`)
      }
      const debtor = await testAccount.read(`/api/v1/debtors/${debtorId}`)
      if ((debtor.balances[0]?.outstanding ?? 0) !== owed)
        throw new Error('the balance is not the sum of the open invoices')
    }

    await fc.assert(
      fc.asyncProperty(arbitrarySteps, async (steps) => {
        const debtor = await testAccount.createDebtor()
        const invoices: Json[] = []
        for (let index = 0; index < INVOICES; index++) {
          invoices.push(await testAccount.createInvoice({ debtor_id: debtor.id, amount: 1000 }))
        }
        const payments: string[] = []
        for (const step of steps) await perform(step, invoices, payments)
        await check(debtor.id)
      }),
      { numRuns: RUNS },
    )
    t.pass(`${RUNS} histories`)
  },
)
