/** Finds the invoices that were past due when they were created, about which no reminder is sent. */
import { index } from '../migrating/steps.ts'

export const steps = [
  index(
    "create index invoices_by_history on invoices (account_id, debtor_id) where chasing_blocked_reason = 'history'",
  ),
]
