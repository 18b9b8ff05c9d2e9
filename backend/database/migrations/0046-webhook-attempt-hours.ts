/**
 * Counts the attempts of webhook deliveries by endpoint and hour, so that pages need not read all attempts of a day.
 * The attempts before this migration are not counted.
 */
import { transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    `create table webhook_attempt_hours (
      endpoint_id text not null references webhook_endpoints (id),
      hour text not null,
      attempts integer not null check (attempts > 0),
      succeeded integer not null check (succeeded >= 0 and succeeded <= attempts),
      primary key (endpoint_id, hour)
    )`,
    'create index webhook_attempt_hours_by_age on webhook_attempt_hours (hour)',
  ),
]
