/** Drops an index of webhook deliveries that has the same columns as the unique constraint. */
import { transaction } from '../migrating/steps.ts'

export const steps = [transaction('drop index webhook_deliveries_by_account')]
