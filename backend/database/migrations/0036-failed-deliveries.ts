/** Indexes of failed webhook deliveries, which are few: for the delivery log, and for sending them again. */
import { index } from '../migrating/steps.ts'

export const steps = [
  index(`create index webhook_deliveries_failed on webhook_deliveries (account_id, id)
    where status = 'failed'`),
  index(`create index webhook_deliveries_failed_by_endpoint on webhook_deliveries (endpoint_id, id)
    where status = 'failed'`),
]
