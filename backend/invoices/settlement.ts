/** Updates an invoice when a payment is allocated to it. The caller must have locked the debtor. */
import type { Transaction } from '../database/database.ts'
import type { InvoiceRowWithOptionalLines, InvoiceStatus } from '../database/tables.ts'
import { changeInvoice, type InvoiceChange } from './change.ts'
import { holdAfterFullPayment, holdOf, PAYMENT_RECEIVED } from './holds.ts'

/** How long a partial payment pauses chasing. */
const PAUSE_MS = 7 * 86_400_000

/** True for a paid invoice too: a payment of it is an overpayment, which a request can allow. */
export function isPayable(status: InvoiceStatus): boolean {
  return status !== 'draft' && status !== 'void'
}

/**
 * Adds `amount` to the amount paid, and updates the status. `amount` must not exceed the amount due. Returns the
 * changed invoice.
 */
export async function addToAmountPaid(
  tx: Transaction,
  invoice: InvoiceRowWithOptionalLines,
  amount: number,
  now: Date,
): Promise<InvoiceRowWithOptionalLines> {
  const amountDue = invoice.amount_due - amount
  const state = amountDue === 0 ? paidInFullChange(invoice, now) : partiallyPaidChange(invoice, now)
  const change = { amount_paid: invoice.amount_paid + amount, amount_due: amountDue, ...state }
  // A partial payment of a written-off invoice does not change the status: there is an event of the payment, but none
  // of the invoice.
  const event = state.status === undefined ? null : (`invoice.${state.status}` as const)
  return changeInvoice(tx, invoice, change, event, now)
}

/** Returns the change to an invoice that payments, credits or both have settled. */
export function paidInFullChange(invoice: InvoiceRowWithOptionalLines, now: Date) {
  return {
    status: 'paid',
    paid_at: now.toISOString(),
    chasing_status: 'stopped',
    chasing_next_stage: null,
    chasing_next_action_at: null,
    chasing_blocked_reason: null,
    ...holdAfterFullPayment(invoice),
  } as const
}

function partiallyPaidChange(
  invoice: InvoiceRowWithOptionalLines,
  now: Date,
): InvoiceChange & { status?: 'partially_paid' } {
  if (invoice.status === 'written_off') return {}
  const status = 'partially_paid' as const
  const { chasing_hold: hold } = holdOf(invoice)
  // A person has decided that no reminders are sent, so this hold has no end (see `holds.ts`). The pause after a
  // payment must not replace it.
  if (hold !== null && hold !== PAYMENT_RECEIVED) return { status }
  const until = new Date(now.getTime() + PAUSE_MS).toISOString()
  // The dispute blocks reminders itself. The pause is stored, and takes effect if the dispute ends before the pause.
  if (invoice.disputed_at !== null) {
    return { status, chasing_hold: PAYMENT_RECEIVED, chasing_hold_until: until }
  }
  return {
    status,
    chasing_status: 'paused',
    chasing_next_action_at: until,
    chasing_blocked_reason: PAYMENT_RECEIVED,
  } as const
}
