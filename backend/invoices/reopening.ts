/**
 * Updates an invoice when a payment on it is reversed, or an allocation to it is taken back. The caller must have
 * locked the debtor.
 */
import type { Transaction } from '../database/database.ts'
import type { InvoiceRow } from '../database/tables.ts'
import { changeInvoice, type InvoiceChange } from './change.ts'
import { BLOCKED_BY_DISPUTE, chasingFieldsFor, holdOf, NO_HOLD, PAYMENT_RECEIVED } from './holds.ts'

/** Subtracts `amount`, which the payment had allocated to the invoice, from the invoice's amount paid. */
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
    ...stateOf(invoice, amountPaid, now),
  }
  return changeInvoice(tx, invoice, change, eventOf(invoice), now)
}

/**
 * Returns the type of the event to record for the invoice: `invoice.reopened`; `invoice.written_off` if the invoice was
 * paid after it had been written off, because it is now written off again; null if it remains written off, because the
 * event of the payment is then enough.
 */
function eventOf({ status, written_off_at: writtenOffAt }: InvoiceRow) {
  if (writtenOffAt === null) return 'invoice.reopened'
  return status === 'paid' ? 'invoice.written_off' : null
}

function stateOf(invoice: InvoiceRow, amountPaid: number, now: Date): InvoiceChange {
  if (invoice.written_off_at !== null) {
    // Chasing is not resumed, because a person decided that payment is no longer expected.
    return { status: 'written_off', paid_at: null }
  }
  const status = amountPaid === 0 ? 'open' : 'partially_paid'
  if (invoice.status === 'paid') {
    const chasing_cycle = invoice.chasing_cycle + 1
    return { status, paid_at: null, chasing_cycle, ...chasingOf(invoice, now) }
  }
  // If a partial payment has paused chasing (the hold `PAYMENT_RECEIVED`), this pause ends. Every other hold remains.
  if (holdOf(invoice).chasing_hold !== PAYMENT_RECEIVED) return { status }
  // The dispute continues to block chasing. The pause must not apply after the dispute.
  if (invoice.disputed_at !== null) return { status, ...NO_HOLD }
  return { status, chasing_next_stage: null, ...chasingFieldsFor(NO_HOLD, now) }
}

/**
 * Neither a payment nor its reversal settles a dispute or changes a decision of a person. `chasing_stage` does not
 * change, so that the new cycle begins by repeating the stage that was sent last (see `nextStageOf` in the planner).
 */
function chasingOf(invoice: InvoiceRow, now: Date): InvoiceChange {
  if (invoice.disputed_at !== null) return BLOCKED_BY_DISPUTE
  const { chasing_hold, chasing_hold_until } = invoice
  return {
    chasing_next_stage: null,
    ...chasingFieldsFor({ chasing_hold, chasing_hold_until }, now),
  }
}
