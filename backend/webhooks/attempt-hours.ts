/**
 * Counts the attempts at each endpoint by UTC hour. An account can make hundreds of thousands of attempts a day, too
 * many for a page to count each time it is opened.
 */
import type {
  Reader,
  Transaction,
  WebhookAttemptHourRow,
  WebhookAttemptRow,
} from '../database/tables.ts'

/** The last 24 hours overlap 25 hours of the clock. */
const HOURS = 25
const HOUR_MS = 3_600_000

export type HourOfAttempts = Pick<WebhookAttemptHourRow, 'hour' | 'attempts' | 'succeeded'>

/**
 * Adds the attempts to the counts. The caller must record the attempts in the same transaction. The rows are sorted, so
 * that two concurrent transactions do not deadlock.
 */
export async function countAttempts(
  tx: Transaction,
  attempts: readonly WebhookAttemptRow[],
): Promise<void> {
  const byRowKey = Map.groupBy(attempts, (row) => `${row.endpoint_id} ${hourOf(row.started_at)}`)
  const rows = [...byRowKey]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, group]) => {
      const [first] = group
      if (first === undefined) return []
      const { endpoint_id, started_at } = first
      const succeeded = group.filter((attempt) => attempt.succeeded === 1).length
      return [{ endpoint_id, hour: hourOf(started_at), attempts: group.length, succeeded }]
    })
  await tx
    .insertInto('webhook_attempt_hours')
    .values(rows)
    .onConflict((conflict) =>
      conflict.columns(['endpoint_id', 'hour']).doUpdateSet((set) => ({
        attempts: set('webhook_attempt_hours.attempts', '+', set.ref('excluded.attempts')),
        succeeded: set('webhook_attempt_hours.succeeded', '+', set.ref('excluded.succeeded')),
      })),
    )
    .execute()
}

/** Returns the current UTC hour and the 24 hours before it, the oldest first, in the format of the column `hour`. */
export function lastHours(now: Date): string[] {
  return Array.from({ length: HOURS }, (_, index) =>
    hourOf(new Date(now.getTime() - (HOURS - 1 - index) * HOUR_MS).toISOString()),
  )
}

/** Returns the counts of the hours of `lastHours` by endpoint id. Hours without attempts are omitted. */
export async function readAttemptHours(
  reader: Reader,
  endpointIds: readonly string[],
  now: Date,
): Promise<ReadonlyMap<string, readonly HourOfAttempts[]>> {
  if (endpointIds.length === 0) return new Map()
  const [first = ''] = lastHours(now)
  const rows = await reader
    .selectFrom('webhook_attempt_hours')
    .select(['endpoint_id', 'hour', 'attempts', 'succeeded'])
    .where('endpoint_id', 'in', endpointIds)
    .where('hour', '>=', first)
    .orderBy('hour')
    .execute()
  const hoursOf = (group: typeof rows) =>
    group.map(({ hour, attempts, succeeded }) => ({ hour, attempts, succeeded }))
  const byEndpoint = Map.groupBy(rows, (row) => row.endpoint_id)
  return new Map([...byEndpoint].map(([id, group]) => [id, hoursOf(group)]))
}

function hourOf(instant: string): string {
  return instant.slice(0, 'YYYY-MM-DDTHH'.length)
}
