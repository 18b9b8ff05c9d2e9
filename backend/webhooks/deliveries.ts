/**
 * Deliveries as the workers see them: found when they are due, claimed with a lease, recorded. A
 * lease is a random name and a time: whoever still holds it may record the outcome; once it has
 * passed, anyone may claim the delivery anew. So a worker that was killed loses nothing, and one that
 * was slow records nothing twice. A receiver may get the same event twice, never not at all.
 */
import { randomUUID } from 'node:crypto'
import type { Reader, Transaction } from '../database/tables.ts'

/** An attempt of 15 s, the wait for the writer, and clocks that differ. */
export const LEASE_MS = 30_000

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

/** The longest due first. */
export async function findDue(
  reader: Reader,
  endpointId: string,
  now: Date,
  limit: number,
): Promise<string[]> {
  const rows = await reader
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('endpoint_id', '=', endpointId)
    .where('run_at', '<=', now.toISOString())
    .orderBy('run_at')
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** Takes those that nobody took meanwhile. Returns the lease's name; the deliveries carry it. */
export async function claimDeliveries(
  tx: Transaction,
  ids: readonly string[],
  now: Date,
): Promise<string> {
  const lease = randomUUID()
  await tx
    .updateTable('webhook_deliveries')
    .set({
      status: 'sending',
      lease,
      run_at: new Date(now.getTime() + LEASE_MS).toISOString(),
      updated_at: now.toISOString(),
    })
    .where('id', 'in', ids)
    .where('run_at', '<=', now.toISOString())
    .execute()
  return lease
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

/** Gives back what was claimed and not sent, or cut off: due again at once, no attempt counted. */
export async function releaseDeliveries(
  tx: Transaction,
  claimed: readonly Pick<ClaimedDelivery, 'id' | 'lease'>[],
  now: Date,
): Promise<void> {
  for (const { id, lease } of claimed) {
    await tx
      .updateTable('webhook_deliveries')
      .set({ status: 'pending', lease: null, run_at: now.toISOString() })
      .where('id', '=', id)
      .where('lease', '=', lease)
      .execute()
  }
}

/** For a worker that knows to be the only one: whoever held a lease is dead. */
export async function releaseAll(tx: Transaction, now: Date): Promise<void> {
  await tx
    .updateTable('webhook_deliveries')
    .set({ status: 'pending', lease: null, run_at: now.toISOString() })
    .where('status', '=', 'sending')
    .where('run_at', 'is not', null)
    .execute()
}
