/**
 * An index of the invoices for which no reminders are sent because they were past due when they were created.
 */
import { index } from '../migrating/steps.ts'

export const steps = [
  index(
    "create index invoices_by_history on invoices (account_id, debtor_id) where chasing_blocked_reason = 'history'",
  ),
]
