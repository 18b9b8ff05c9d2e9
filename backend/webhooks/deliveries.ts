/** Deliveries as the workers see them. A receiver may get the same event twice, never not at all. */
import { leasesOf } from '../background/leases.ts'
import type { Reader } from '../database/tables.ts'

/** An attempt of 15 s, the wait for the writer, and clocks that differ. */
export const LEASE_MS = 30_000

export const DELIVERIES = leasesOf({ table: 'webhook_deliveries', key: 'id', leaseMs: LEASE_MS })

/** Endpoints served in one round: bounds its queries. */
const ENDPOINTS_MAX = 100

export interface DueEndpoint {
  readonly id: string
  readonly isFailing: boolean
}

/** Enabled endpoints that have something due, less the `busy` ones. */
export async function findDueEndpoints(
  reader: Reader,
  now: Date,
  busy: readonly string[],
): Promise<DueEndpoint[]> {
  const at = now.toISOString()
  const rows = await reader
    .selectFrom('webhook_endpoints')
    .select(['id', 'failing_since'])
    .where('status', '=', 'enabled')
    .where((eb) => eb.or([eb('hold_until', 'is', null), eb('hold_until', '<=', at)]))
    .where('id', 'not in', busy.length === 0 ? [''] : busy)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('webhook_deliveries')
          .select('webhook_deliveries.id')
          .whereRef('webhook_deliveries.endpoint_id', '=', 'webhook_endpoints.id')
          .where('webhook_deliveries.run_at', '<=', at),
      ),
    )
    .execute()
  // Any of them, so that none waits for ever behind many others.
  const start = Math.floor(Math.random() * Math.max(1, rows.length))
  return [...rows.slice(start), ...rows.slice(0, start)]
    .slice(0, ENDPOINTS_MAX)
    .map((row) => ({ id: row.id, isFailing: row.failing_since !== null }))
}

/** What an attempt needs to know. */
export type ClaimedDelivery = Awaited<ReturnType<typeof readClaimed>>[number]

export async function readClaimed(reader: Reader, ids: readonly string[], lease: string) {
  return await reader
    .selectFrom('webhook_deliveries')
    .innerJoin('webhook_events', 'webhook_events.id', 'webhook_deliveries.event_id')
    .innerJoin('webhook_endpoints', 'webhook_endpoints.id', 'webhook_deliveries.endpoint_id')
    .select([
      'webhook_deliveries.id',
      'webhook_deliveries.lease',
      'webhook_deliveries.account_id',
      'webhook_deliveries.event_id',
      'webhook_deliveries.endpoint_id',
      'webhook_events.body',
      'webhook_endpoints.url',
      'webhook_endpoints.secret',
      'webhook_endpoints.old_secret',
      'webhook_endpoints.old_secret_expires_at',
    ])
    .where('webhook_deliveries.id', 'in', ids)
    .where('webhook_deliveries.lease', '=', lease)
    .execute()
}
