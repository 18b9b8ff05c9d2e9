/** What a payment does to an invoice (contract 1.5). The caller holds the debtor. */
import type { Transaction } from '../database/database.ts'
import type { InvoiceRow, InvoiceStatus } from '../database/tables.ts'
import { changeInvoice, type InvoiceChange } from './change.ts'

/** How long a partial payment keeps the next reminder back. */
const PAUSE_MS = 7 * 86_400_000
const PAYMENT_RECEIVED = 'payment_received'

/** Draft invoices are not final and void ones never will be; a written-off one can still be paid. */
export function isPayable(status: InvoiceStatus): boolean {
  return status !== 'draft' && status !== 'void'
}

/** Adds `amount`, at most what is due, to what has been paid. Returns the invoice as it is then. */
export async function settleInvoice(
  tx: Transaction,
  invoice: InvoiceRow,
  amount: number,
  now: Date,
): Promise<InvoiceRow> {
  const amountDue = invoice.amount_due - amount
  const state = amountDue === 0 ? paid(invoice, now) : partiallyPaid(invoice, now)
  const change = { amount_paid: invoice.amount_paid + amount, amount_due: amountDue, ...state }
  // A part payment of what was written off changes no status: `payment.recorded` tells of it.
  const event = state.status === undefined ? null : (`invoice.${state.status}` as const)
  return changeInvoice(tx, invoice, change, event, now)
}

function paid({ chasing_blocked_reason: reason }: InvoiceRow, now: Date) {
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

/** What a person decided, in so far as it outlasts a payment that is reversed. */
const HOLDS = ['history', 'approval_rejected'] as const

function partiallyPaid(
  invoice: InvoiceRow,
  now: Date,
): InvoiceChange & { status?: 'partially_paid' } {
  // What was given up stays so until it is paid in full.
  if (invoice.status === 'written_off') return {}
  const status = 'partially_paid' as const
  // What a person paused or stopped stays so.
  const pausedByPayment = invoice.chasing_blocked_reason === PAYMENT_RECEIVED
  if (invoice.chasing_status !== 'active' && !pausedByPayment) return { status }
  return {
    status,
    chasing_status: 'paused',
    chasing_next_action_at: new Date(now.getTime() + PAUSE_MS).toISOString(),
    chasing_blocked_reason: PAYMENT_RECEIVED,
  } as const
}
