/** The effect of a reversed payment on an invoice (contract 1.5). The caller has locked the debtor. */
import type { Transaction } from '../database/database.ts'
import type { InvoiceRow } from '../database/tables.ts'
import { changeInvoice, type InvoiceChange } from './change.ts'
import { HELD_BY_DISPUTE } from './dispute.ts'

/** Subtracts `amount`, which was allocated to the invoice, from the amount paid. */
export async function reopenInvoice(
  tx: Transaction,
  invoice: InvoiceRow,
  amount: number,
  now: Date,
): Promise<InvoiceRow> {
  const amountPaid = invoice.amount_paid - amount
  const change = {
    amount_paid: amountPaid,
    amount_due: invoice.amount_due + amount,
    ...stateOf(invoice, amountPaid),
  }
  return changeInvoice(tx, invoice, change, eventOf(invoice), now)
}

/** An invoice that remains written off has no event of its own: `payment.reversed` reports the change. */
function eventOf({ status, written_off_at: writtenOffAt }: InvoiceRow) {
  if (writtenOffAt === null) return 'invoice.reopened'
  return status === 'paid' ? 'invoice.written_off' : null
}

function stateOf(invoice: InvoiceRow, amountPaid: number): InvoiceChange {
  if (invoice.written_off_at !== null) {
    // The payment was not expected when the invoice was written off, so that its reversal resumes no
    // chasing.
    return { status: 'written_off', paid_at: null }
  }
  const status = amountPaid === 0 ? 'open' : 'partially_paid'
  if (invoice.status === 'paid') {
    const chasing_cycle = invoice.chasing_cycle + 1
    return { status, paid_at: null, chasing_cycle, chasing_hold: null, ...chasingOf(invoice) }
  }
  // A pause or stop by a person remains.
  const pausedByPayment = invoice.chasing_blocked_reason === 'payment_received'
  return pausedByPayment ? { status, ...CHASED_AGAIN } : { status }
}

/** The payment and its reversal settle no dispute and change no decision of a person. */
function chasingOf({ disputed_at: disputedAt, chasing_hold: hold }: InvoiceRow): InvoiceChange {
  if (disputedAt !== null) return HELD_BY_DISPUTE
  if (hold === null) return CHASED_AGAIN
  const chasing_status = hold === 'history' ? 'stopped' : 'paused'
  return { ...CHASED_AGAIN, chasing_status, chasing_blocked_reason: hold }
}

/** `chasing_stage` is kept: chasing continues at the stage that it had reached, never at a higher one. */
const CHASED_AGAIN = {
  chasing_status: 'active',
  chasing_next_stage: null,
  chasing_next_action_at: null,
  chasing_blocked_reason: null,
} as const
