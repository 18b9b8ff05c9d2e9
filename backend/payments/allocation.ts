/**
 * How a payment is spread over invoices. Pure: what it decides depends on nothing but the invoices as
 * they stand under the debtor's lock.
 */
import { Problem } from '../../shared/contract/problem.ts'
import type { InvoiceRow } from '../database/tables.ts'
import { byDueDate } from '../debtors/credit.ts'
import { isPayable } from '../invoices/settlement.ts'
import { type Fault, faultsProblem } from '../validation/faults.ts'

/** What the client asked for on one invoice. */
export interface Target {
  /** Where in the body it stands; empty for the payment as a whole. */
  readonly pointer: string
  readonly invoice: InvoiceRow
  /** Undefined: as much of the payment as is due. */
  readonly amount: number | undefined
}

export interface Share {
  readonly invoice: InvoiceRow
  /** 0 where nothing is due any more. */
  readonly amount: number
}

export interface Incoming {
  readonly amount: number
  readonly currency: string
  readonly allowOverpayment: boolean
}

/**
 * Throws `invoice_not_payable`, `currency_mismatch`, `payment_exceeds_balance`, and
 * `validation_failed` where the invoices are not of one debtor.
 */
export function allocate(payment: Incoming, targets: readonly Target[]): Share[] {
  refuseUnpayable(targets)
  refuseSeveralDebtors(targets)
  refuseOtherCurrency(payment, targets)
  if (!payment.allowOverpayment) refuseSurplus(payment, targets)
  return targets.map(({ invoice, amount = payment.amount }) => ({
    invoice,
    amount: Math.min(amount, invoice.amount_due),
  }))
}

/**
 * Adds what is left of the payment to the shares: to the debtor's open invoices of its currency, the
 * oldest due date first. An invoice with a share already gets more of it, up to what is due.
 */
export function applyOldestFirst(
  payment: Pick<Incoming, 'amount'>,
  shares: readonly Share[],
  open: readonly InvoiceRow[],
): Share[] {
  const byId = new Map(shares.map((share) => [share.invoice.id, share]))
  let left = shares.reduce((rest, { amount }) => rest - amount, payment.amount)
  for (const invoice of open.toSorted(byDueDate)) {
    const own = byId.get(invoice.id)?.amount ?? 0
    const more = Math.min(left, invoice.amount_due - own)
    if (more <= 0) continue
    byId.set(invoice.id, { invoice, amount: own + more })
    left -= more
  }
  return [...byId.values()]
}

function refuseUnpayable(targets: readonly Target[]): void {
  const found = targets.find(({ invoice }) => !isPayable(invoice.status))
  if (found === undefined) return
  const { id, number, status } = found.invoice
  throw new Problem(
    'invoice_not_payable',
    `Invoice ${number} (${id}) is ${status}: a payment cannot be recorded on it.`,
    { members: { invoice_status: status } },
  )
}

function refuseSeveralDebtors(targets: readonly Target[]): void {
  const debtorId = targets[0]?.invoice.debtor_id
  const faults = targets
    .filter(({ invoice }) => invoice.debtor_id !== debtorId)
    .map(({ pointer }) => ({
      pointer: `${pointer}/invoice_id`,
      code: 'invalid_format',
      detail: 'invoice_id must be an invoice of the same debtor as the first',
    }))
  if (faults.length > 0) throw faultsProblem(faults)
}

function refuseOtherCurrency({ currency }: Incoming, targets: readonly Target[]): void {
  const found = targets.find(({ invoice }) => invoice.currency !== currency)
  if (found === undefined) return
  const expected = found.invoice.currency
  const detail = `currency must be ${expected}, as on invoice ${found.invoice.number}`
  throw faultsProblem([{ pointer: '/currency', code: 'currency_mismatch', detail }], {
    expected,
    actual: currency,
  })
}

function refuseSurplus(payment: Incoming, targets: readonly Target[]): void {
  const exceeding = targets.filter(
    ({ invoice, amount = payment.amount }) => amount > invoice.amount_due,
  )
  const [first] = exceeding
  if (first === undefined) return
  const faults = exceeding.map(
    ({ pointer, invoice }): Fault => ({
      pointer: `${pointer}/amount`,
      code: 'payment_exceeds_balance',
      detail: `amount must be at most ${invoice.amount_due}, what is due on invoice ${invoice.number}; if more was really paid, send allow_overpayment: true`,
    }),
  )
  throw faultsProblem(faults, { amount_due: first.invoice.amount_due })
}
