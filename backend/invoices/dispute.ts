/** What a dispute does to the chasing of an invoice. */

/** What `invoices.chasing_blocked_reason` says of it. */
export const DISPUTED = 'disputed'

export const HELD_BY_DISPUTE = {
  chasing_status: 'paused',
  chasing_next_action_at: null,
  chasing_blocked_reason: DISPUTED,
} as const
