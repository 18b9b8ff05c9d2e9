/**
 * Allocates a payment to invoices. The functions access no database: the caller must have locked the debtor and
 * read the invoices.
 */
import { Problem } from '../../shared/contract/problem.ts'
import type { InvoiceRowWithOptionalLines } from '../database/tables.ts'
import { isPayable } from '../invoices/settlement.ts'
import { byDueDate } from '../on-account/cover.ts'
import { type FieldError, fieldErrorsProblem } from '../validation/field-errors.ts'

/**
 * The maximum number of invoices to which a payment is allocated, as in the API document. The rest of the payment stays
 * on account.
 */
export const ALLOCATIONS_MAX = 100

/** An invoice that the request names, and the amount to be allocated to it. */
export interface TargetInvoice {
  /** The JSON pointer of the object that names the invoice; empty if the body itself is this object. */
  readonly pointer: string
  readonly invoice: InvoiceRowWithOptionalLines
  /** If it is undefined, the whole payment is allocated, up to the amount due. */
  readonly amount: number | undefined
}

/** The part of a payment that is allocated to one invoice. */
export interface Share {
  readonly invoice: InvoiceRowWithOptionalLines
  /** 0 if nothing was due on the invoice. */
  readonly amount: number
}

export interface PaymentToAllocate {
  readonly amount: number
  readonly currency: string
  /**
   * Whether the amount for an invoice may exceed the amount due on it. Both false and undefined reject such an amount,
   * but only the error for false proposes `allow_overpayment`.
   */
  readonly allowOverpayment: boolean | undefined
}

/**
 * Returns the share of each target. `debtorId` is the debtor of an existing payment; a new payment belongs to
 * the debtor of its first invoice. Throws `validation_failed` if an invoice belongs to another debtor, and
 * `invoice_not_payable`, `currency_mismatch` and `payment_exceeds_balance`.
 */
export function allocate(
  payment: PaymentToAllocate,
  targets: readonly TargetInvoice[],
  debtorId = targets[0]?.invoice.debtor_id,
): Share[] {
  rejectUnpayable(targets)
  rejectOtherDebtors(targets, debtorId)
  rejectOtherCurrency(payment, targets)
  if (!payment.allowOverpayment) rejectSurplus(payment, targets)
  return targets.map(({ invoice, amount = payment.amount }) => ({
    invoice,
    amount: Math.min(amount, invoice.amount_due),
  }))
}

/**
 * Allocates the rest of the payment, which is not in `shares`, to the invoices in `open`, the oldest due date first.
 * `open` contains the open invoices of the debtor in the payment's currency or, if there are too many to read, the
 * oldest of them. Returns all shares of the payment, including those in `shares`, which may be increased.
 */
export function applyOldestFirst(
  payment: Pick<PaymentToAllocate, 'amount'>,
  shares: readonly Share[],
  open: readonly InvoiceRowWithOptionalLines[],
): Share[] {
  const byId = new Map(shares.map((share) => [share.invoice.id, share]))
  let remaining = shares.reduce((rest, { amount }) => rest - amount, payment.amount)
  for (const invoice of open.toSorted(byDueDate)) {
    if (byId.size === ALLOCATIONS_MAX && !byId.has(invoice.id)) continue
    const allocated = byId.get(invoice.id)?.amount ?? 0
    const increase = Math.min(remaining, invoice.amount_due - allocated)
    if (increase <= 0) continue
    byId.set(invoice.id, { invoice, amount: allocated + increase })
    remaining -= increase
  }
  return [...byId.values()]
}

function rejectUnpayable(targets: readonly TargetInvoice[]): void {
  const found = targets.find(({ invoice }) => !isPayable(invoice.status))
  if (found === undefined) return
  const { id, number, status } = found.invoice
  throw new Problem(
    'invoice_not_payable',
    `Invoice ${number} (${id}) is ${status}, so it cannot be paid.`,
    { members: { invoice_status: status } },
  )
}

function rejectOtherDebtors(targets: readonly TargetInvoice[], debtorId: string | undefined): void {
  const errors = targets
    .filter(({ invoice }) => invoice.debtor_id !== debtorId)
    .map(({ pointer }) => ({
      pointer: `${pointer}/invoice_id`,
      code: 'invalid_format',
      detail:
        "invoice_id must be an invoice of the payment's debtor: a payment cannot pay invoices of several debtors",
    }))
  if (errors.length > 0) throw fieldErrorsProblem(errors)
}

function rejectOtherCurrency(
  { currency }: PaymentToAllocate,
  targets: readonly TargetInvoice[],
): void {
  const found = targets.find(({ invoice }) => invoice.currency !== currency)
  if (found === undefined) return
  const expected = found.invoice.currency
  const detail = `currency must be ${expected}, as on invoice ${found.invoice.number}`
  throw fieldErrorsProblem([{ pointer: '/currency', code: 'currency_mismatch', detail }], {
    expected,
    actual: currency,
  })
}

function rejectSurplus(payment: PaymentToAllocate, targets: readonly TargetInvoice[]): void {
  const exceeding = targets.filter(
    ({ invoice, amount = payment.amount }) => amount > invoice.amount_due,
  )
  const [first] = exceeding
  if (first === undefined) return
  const canAllow = payment.allowOverpayment !== undefined
  const hint = canAllow ? '; if more was really paid, send allow_overpayment: true' : ''
  const errors = exceeding.map(
    ({ pointer, invoice }): FieldError => ({
      pointer: `${pointer}/amount`,
      code: 'payment_exceeds_balance',
      detail: `amount must be at most ${invoice.amount_due}, the amount due on invoice ${invoice.number}${hint}`,
    }),
  )
  throw fieldErrorsProblem(errors, { amount_due: first.invoice.amount_due })
}
