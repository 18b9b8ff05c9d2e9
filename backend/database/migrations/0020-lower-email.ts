/** An index that finds debtors by e-mail address, regardless of case, for bounces, unsubscribing and erasure. */
import { index } from '../migrating/steps.ts'

export const steps = [
  index('create index debtors_by_lower_email on debtors (account_id, lower(email))'),
]
