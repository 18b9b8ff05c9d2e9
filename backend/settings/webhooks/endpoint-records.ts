/** Reads webhook endpoints with their health, for the pages that list them. */
import type { Reader, WebhookEndpointRow } from '../../database/tables.ts'
import { readAttemptHours, readLastAttempts } from '../../webhooks/delivery-log.ts'
import { listEndpoints } from '../../webhooks/endpoints.ts'
import type { EndpointRecord } from '../../webhooks/representation.ts'

export interface EndpointHealth {
  readonly row: WebhookEndpointRow
  readonly record: EndpointRecord
}

/** Returns all endpoints of the account. */
export async function readEndpoints(
  reader: Reader,
  accountId: string,
  now: Date,
): Promise<EndpointHealth[]> {
  return readHealth(reader, await listEndpoints(reader, accountId), now)
}

/** Returns the endpoints in the order of `rows`. */
export async function readHealth(
  reader: Reader,
  rows: readonly WebhookEndpointRow[],
  now: Date,
): Promise<EndpointHealth[]> {
  const ids = rows.map(({ id }) => id)
  const [hours, last] = await Promise.all([
    readAttemptHours(reader, ids, now),
    readLastAttempts(reader, ids),
  ])
  return rows.map((row) => ({
    row,
    record: { hours: hours.get(row.id) ?? [], lastAttemptAt: last.get(row.id) },
  }))
}
