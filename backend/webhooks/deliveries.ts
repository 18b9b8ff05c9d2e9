/**
 * Finds endpoints with due deliveries, and reads and changes deliveries for the workers. A receiver may receive an
 * event twice, because a process can be killed after it has sent a delivery, but before it has recorded the outcome.
 */
import { leasesOf } from '../background/leases.ts'
import type { Reader, Transaction } from '../database/tables.ts'
import { ATTEMPT_MS_MAX } from './sender.ts'

export const DELIVERY_LEASES = leasesOf({
  table: 'webhook_deliveries',
  key: 'id',
  workMsMax: ATTEMPT_MS_MAX,
})

export interface DueEndpoint {
  readonly id: string
  readonly accountId: string
  /** Whether an attempt has failed since the last success. */
  readonly isFailing: boolean
}

export interface DueEndpoints {
  readonly endpoints: readonly DueEndpoint[]
  /**
   * The earliest time at which an endpoint that has no delivery due now will have one; undefined if this is not within
   * `horizonMs`.
   */
  readonly nextAt: Date | undefined
}

/**
 * Returns the enabled endpoints that have a delivery due now, and `nextAt`. Ignores the `busy` endpoints, to which the
 * worker already makes as many attempts as it may.
 */
export async function findDueEndpoints(
  reader: Reader,
  { now, horizonMs, busy }: { now: Date; horizonMs: number; busy: readonly string[] },
): Promise<DueEndpoints> {
  const at = now.toISOString()
  const horizon = new Date(now.getTime() + horizonMs).toISOString()
  const rows = await reader
    .selectFrom('webhook_endpoints')
    .select(['id', 'account_id', 'failing_since', 'hold_until'])
    .select(({ selectFrom }) =>
      selectFrom('webhook_deliveries')
        .select(({ fn }) => fn.min('webhook_deliveries.run_at').as('run_at'))
        .whereRef('webhook_deliveries.endpoint_id', '=', 'webhook_endpoints.id')
        .where('webhook_deliveries.run_at', '<=', horizon)
        .as('run_at'),
    )
    .where('status', '=', 'enabled')
    .where((eb) => eb.or([eb('hold_until', 'is', null), eb('hold_until', '<=', horizon)]))
    // SQL does not allow an empty list.
    .where('id', 'not in', busy.length === 0 ? [''] : busy)
    .execute()
  const waiting = rows.flatMap(
    ({ id, account_id: accountId, failing_since, hold_until, run_at }) => {
      if (run_at === null) return []
      // Deliveries to a receiver that is overloaded or unavailable wait until `hold_until`.
      const dueAt = hold_until !== null && hold_until > run_at ? hold_until : run_at
      return [{ id, accountId, isFailing: failing_since !== null, dueAt }]
    },
  )
  const due = waiting.filter(({ dueAt }) => dueAt <= at)
  const later = waiting.map(({ dueAt }) => dueAt).filter((dueAt) => dueAt > at)
  const [next] = later.toSorted()
  // The list starts at a random endpoint, so that no endpoint waits forever behind many others.
  const start = Math.floor(Math.random() * Math.max(1, due.length))
  return {
    endpoints: [...due.slice(start), ...due.slice(0, start)],
    nextAt: next === undefined ? undefined : new Date(next),
  }
}

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

/** Releases the lease after an attempt that was aborted, so that another worker sends the delivery immediately. */
export async function releaseDelivery(
  tx: Transaction,
  delivery: Pick<ClaimedDelivery, 'id' | 'lease'>,
  now: Date,
): Promise<void> {
  await DELIVERY_LEASES.finish(tx, delivery, now, { status: 'pending' })
}

/**
 * The maximum number of deliveries that are marked as failed in the transaction that disables or deletes an endpoint.
 * Marking 100,000 deliveries would block all other writes for seconds on SQLite, and would exceed the time limit of a
 * statement on PostgreSQL.
 */
const MARKED_FAILED_MAX = 1000

/**
 * Marks pending deliveries to an endpoint as failed, after the endpoint was disabled or deleted. Attempts in progress
 * continue. If more than `MARKED_FAILED_MAX` deliveries are pending, the retention (`retention.ts`) marks the others
 * within some minutes.
 */
export async function failPendingDeliveries(
  tx: Transaction,
  endpointId: string,
  now: Date,
): Promise<void> {
  await tx
    .updateTable('webhook_deliveries')
    .set({ status: 'failed', run_at: null, updated_at: now.toISOString() })
    .where('id', 'in', (eb) =>
      eb
        .selectFrom('webhook_deliveries')
        .select('id')
        .where('endpoint_id', '=', endpointId)
        // The index `webhook_deliveries_due` has this condition.
        .where('run_at', 'is not', null)
        .where('status', '=', 'pending')
        .limit(MARKED_FAILED_MAX),
    )
    // On PostgreSQL, a worker may have claimed a delivery after the subquery read it.
    .where('status', '=', 'pending')
    .execute()
}
