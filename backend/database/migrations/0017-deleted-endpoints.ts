/** Deleted webhook endpoints remain as rows, because the delivery log refers to them. */
import { transaction } from '../migrating/steps.ts'

export const steps = [transaction('alter table webhook_endpoints add column deleted_at text')]
