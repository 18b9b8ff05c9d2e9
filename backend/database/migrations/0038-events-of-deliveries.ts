/**
 * An index of the foreign key of deliveries. When an event is deleted, SQLite searches for deliveries that refer to it.
 * Without this index, it would read all deliveries of the account.
 */
import { index } from '../migrating/steps.ts'

export const steps = [
  index('create index webhook_deliveries_by_event on webhook_deliveries (event_id, account_id)'),
]
