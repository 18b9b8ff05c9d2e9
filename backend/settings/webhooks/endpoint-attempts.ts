/**
 * Reads webhook endpoints with the recent attempts to send events to them: how many there were in the current hour and
 * in each of the 24 hours before it, and when the last one was.
 */
import type { Reader, WebhookEndpointRow } from '../../database/tables.ts'
import { readAttemptHours } from '../../webhooks/attempt-hours.ts'
import { readLastAttempts } from '../../webhooks/delivery-log.ts'
import { listEndpoints } from '../../webhooks/endpoints.ts'
import type { RecentAttempts } from '../../webhooks/representation.ts'

export interface EndpointWithAttempts {
  readonly row: WebhookEndpointRow
  readonly recent: RecentAttempts
}

export async function readEndpointsWithAttempts(
  reader: Reader,
  accountId: string,
  now: Date,
): Promise<EndpointWithAttempts[]> {
  return readAttemptsOf(reader, await listEndpoints(reader, accountId), now)
}

/** Returns the endpoints with their recent attempts, in the order of `rows`. */
export async function readAttemptsOf(
  reader: Reader,
  rows: readonly WebhookEndpointRow[],
  now: Date,
): Promise<EndpointWithAttempts[]> {
  const ids = rows.map(({ id }) => id)
  const [hours, last] = await Promise.all([
    readAttemptHours(reader, ids, now),
    readLastAttempts(reader, ids),
  ])
  return rows.map((row) => ({
    row,
    recent: { hours: hours.get(row.id) ?? [], lastAttemptAt: last.get(row.id) },
  }))
}
