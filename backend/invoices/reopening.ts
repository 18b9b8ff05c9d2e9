/** What the reversal of a payment does to an invoice (contract 1.5). The caller holds the debtor. */
import type { Transaction } from '../database/database.ts'
import type { InvoiceRow } from '../database/tables.ts'
import { changeInvoice, type InvoiceChange } from './change.ts'
import { HELD_BY_DISPUTE } from './dispute.ts'

/** Takes `amount`, which was allocated to it, from what has been paid. */
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

/** Of an invoice that stays written off `payment.reversed` tells all there is to tell. */
function eventOf({ status, written_off_at: writtenOffAt }: InvoiceRow) {
  if (writtenOffAt === null) return 'invoice.reopened'
  return status === 'paid' ? 'invoice.written_off' : null
}

function stateOf(invoice: InvoiceRow, amountPaid: number): InvoiceChange {
  if (invoice.written_off_at !== null) {
    // Nobody expected the money before it came, so nobody is chased for it now that it went.
    return { status: 'written_off', paid_at: null }
  }
  const status = amountPaid === 0 ? 'open' : 'partially_paid'
  if (invoice.status === 'paid') {
    const chasing_cycle = invoice.chasing_cycle + 1
    return { status, paid_at: null, chasing_cycle, chasing_hold: null, ...chasingOf(invoice) }
  }
  // What a person paused or stopped stays so.
  const pausedByPayment = invoice.chasing_blocked_reason === 'payment_received'
  return pausedByPayment ? { status, ...CHASED_AGAIN } : { status }
}

/** That it was paid, and is not, has settled no dispute and changed no decision of a person. */
function chasingOf({ disputed_at: disputedAt, chasing_hold: hold }: InvoiceRow): InvoiceChange {
  if (disputedAt !== null) return HELD_BY_DISPUTE
  if (hold === null) return CHASED_AGAIN
  const chasing_status = hold === 'history' ? 'stopped' : 'paused'
  return { ...CHASED_AGAIN, chasing_status, chasing_blocked_reason: hold }
}

/** `chasing_stage` stays: chasing goes on at the stage it had reached, never at a higher one. */
const CHASED_AGAIN = {
  chasing_status: 'active',
  chasing_next_stage: null,
  chasing_next_action_at: null,
  chasing_blocked_reason: null,
} as const
