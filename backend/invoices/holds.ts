/**
 * A hold blocks the chasing of an invoice. It is either a decision of a person, or the pause after a partial payment.
 * The pause ends after a week. It ends earlier if a person resumes chasing, if the invoice is fully paid or written
 * off, or if its amount paid is reduced.
 *
 * While a hold applies, it is in the columns `chasing_status`, `chasing_next_action_at` (its end) and
 * `chasing_blocked_reason`. While the invoice is disputed or fully paid, the hold has no effect and is stored in
 * `chasing_hold` and `chasing_hold_until`; it applies again when the dispute is resolved or the payment is reversed.
 */
import type { InvoiceRow, InvoiceRowWithOptionalLines } from '../database/tables.ts'

/** Values of `invoices.chasing_blocked_reason`. */
export const DISPUTED = 'disputed'
export const PAYMENT_RECEIVED = 'payment_received'
/** The decision not to chase an old invoice. */
export const OLD_INVOICE = 'history'

/** Decisions remain in force until a person resumes chasing. */
const DECISIONS = [OLD_INVOICE, 'approval_rejected'] as const

type Hold = Pick<InvoiceRow, 'chasing_hold' | 'chasing_hold_until'>

/** In the columns of an invoice, these values mean that no hold is stored; a hold may apply nevertheless. */
export const NO_HOLD = { chasing_hold: null, chasing_hold_until: null } as const

export const BLOCKED_BY_DISPUTE = {
  chasing_status: 'paused',
  chasing_next_action_at: null,
  chasing_blocked_reason: DISPUTED,
} as const

/**
 * Returns the hold that applies to the invoice, or the stored hold if the invoice is disputed. For a fully paid invoice
 * that is not disputed, returns no hold: the caller must read the stored hold itself.
 */
export function holdOf(invoice: InvoiceRowWithOptionalLines): Hold {
  const { chasing_blocked_reason: reason, chasing_next_action_at: until } = invoice
  if (invoice.disputed_at !== null) {
    return {
      chasing_hold: invoice.chasing_hold,
      chasing_hold_until: invoice.chasing_hold_until,
    }
  }
  if (invoice.chasing_status === 'paused' && reason === PAYMENT_RECEIVED) {
    return { chasing_hold: reason, chasing_hold_until: until }
  }
  return { ...NO_HOLD, chasing_hold: DECISIONS.find((decision) => decision === reason) ?? null }
}

/**
 * Returns the hold to store when the invoice is fully paid: the decision of a person, but not the pause after
 * a payment.
 */
export function holdAfterFullPayment(invoice: InvoiceRowWithOptionalLines): Hold {
  const hold = holdOf(invoice)
  return hold.chasing_hold === PAYMENT_RECEIVED ? NO_HOLD : hold
}

/**
 * Returns the chasing fields of an open, undisputed invoice. Chasing is active if there is no hold or it has expired.
 */
export function chasingFieldsFor(
  { chasing_hold: hold, chasing_hold_until: until }: Hold,
  now: Date,
) {
  const hasExpired = until !== null && until <= now.toISOString()
  if (hold === null || hasExpired) {
    return {
      chasing_status: 'active',
      chasing_next_action_at: null,
      chasing_blocked_reason: null,
      ...NO_HOLD,
    } as const
  }
  return {
    chasing_status: hold === OLD_INVOICE ? 'stopped' : 'paused',
    chasing_next_action_at: until,
    chasing_blocked_reason: hold,
    ...NO_HOLD,
  } as const
}
