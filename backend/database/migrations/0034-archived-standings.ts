/** An index with which Home and the list of customers find the archived debtors that owe an amount. */
import { index } from '../migrating/steps.ts'

export const steps = [
  index(`create index debtor_standings_archived on debtor_standings (account_id, debtor_id)
    where is_active = 0`),
]
