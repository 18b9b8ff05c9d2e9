/**
 * Adds the date of receipt to the indexes in whose order payments are listed, so that the filters `received_since` and
 * `received_before` skip payments without reading them. The date never changes.
 */
import { index, transaction } from '../migrating/steps.ts'

export const steps = [
  index(`create index payments_by_creation_and_receipt on payments
    (account_id, created_at, id, received_on)`),
  index(`create index payments_by_update_and_receipt on payments
    (account_id, updated_at, id, received_on)`),
  transaction('drop index payments_by_creation', 'drop index payments_by_update'),
]
