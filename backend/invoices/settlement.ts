/** The effect of a payment on an invoice (contract 1.5). The caller has locked the debtor. */
import type { Transaction } from '../database/database.ts'
import type { InvoiceRow, InvoiceStatus } from '../database/tables.ts'
import { changeInvoice, type InvoiceChange } from './change.ts'

/** A partial payment postpones the next reminder by this time. */
const PAUSE_MS = 7 * 86_400_000
const PAYMENT_RECEIVED = 'payment_received'

/** A draft is not final and a void invoice never will be; a written-off invoice can still be paid. */
export function isPayable(status: InvoiceStatus): boolean {
  return status !== 'draft' && status !== 'void'
}

/** Adds `amount`, at most the amount due, to the amount paid. Returns the changed invoice. */
export async function settleInvoice(
  tx: Transaction,
  invoice: InvoiceRow,
  amount: number,
  now: Date,
): Promise<InvoiceRow> {
  const amountDue = invoice.amount_due - amount
  const state = amountDue === 0 ? paid(invoice, now) : partiallyPaid(invoice, now)
  const change = { amount_paid: invoice.amount_paid + amount, amount_due: amountDue, ...state }
  // A partial payment of a written-off invoice changes no status: `payment.recorded` reports it.
  const event = state.status === undefined ? null : (`invoice.${state.status}` as const)
  return changeInvoice(tx, invoice, change, event, now)
}

/** The change of an invoice on which nothing is due any more, whether by payments, credits or both. */
export function paid({ chasing_blocked_reason: reason }: InvoiceRow, now: Date) {
  return {
    status: 'paid',
    paid_at: now.toISOString(),
    chasing_status: 'stopped',
    chasing_next_stage: null,
    chasing_next_action_at: null,
    chasing_blocked_reason: null,
    chasing_hold: HOLDS.find((hold) => hold === reason) ?? null,
  } as const
}

/** Decisions of a person that remain in force if the payment is reversed. */
const HOLDS = ['history', 'approval_rejected'] as const

function partiallyPaid(
  invoice: InvoiceRow,
  now: Date,
): InvoiceChange & { status?: 'partially_paid' } {
  // A written-off invoice remains written off until it is paid in full.
  if (invoice.status === 'written_off') return {}
  const status = 'partially_paid' as const
  // A pause or stop by a person remains.
  const pausedByPayment = invoice.chasing_blocked_reason === PAYMENT_RECEIVED
  if (invoice.chasing_status !== 'active' && !pausedByPayment) return { status }
  return {
    status,
    chasing_status: 'paused',
    chasing_next_action_at: new Date(now.getTime() + PAUSE_MS).toISOString(),
    chasing_blocked_reason: PAYMENT_RECEIVED,
  } as const
}
