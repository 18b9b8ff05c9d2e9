/** The effect of a dispute on the chasing of an invoice. */

/** The value of `invoices.chasing_blocked_reason`. */
export const DISPUTED = 'disputed'

export const HELD_BY_DISPUTE = {
  chasing_status: 'paused',
  chasing_next_action_at: null,
  chasing_blocked_reason: DISPUTED,
} as const
