/**
 * Deletes deliveries and events after 30 days, counts of attempts after two days, and old secrets when they expire. A
 * delivery that still waits, for example because its endpoint is paused, is kept longer, and so is its event.
 */

import {
  BATCH_MAX,
  DAY_MS,
  type RetentionRule,
  type RowKey,
  ruleByAge,
  startOfNextBatch,
} from '../database/retention-rule.ts'
import type { Reader, Transaction } from '../database/tables.ts'

const KEPT_MS = 30 * DAY_MS

/**
 * The order matters, because an event can be deleted only after its last delivery. The first rule deletes no rows: it
 * marks deliveries as failed, so that the second rule can delete them when they are old.
 */
export const WEBHOOK_RETENTION: readonly RetentionRule[] = [
  {
    name: 'stranded webhook deliveries',
    findExpired: findStranded,
    applyTo: failStranded,
  },
  { name: 'webhook deliveries', findExpired: findDeliveries, applyTo: deleteDeliveries },
  { name: 'webhook events', findExpired: findEvents, applyTo: deleteEvents },
  ruleByAge('webhook_attempt_hours', {
    key: ['endpoint_id', 'hour'],
    ageColumn: 'hour',
    keptMs: 2 * DAY_MS,
  }),
  { name: 'webhook secrets', findExpired: findOldSecrets, applyTo: deleteOldSecrets },
]

/**
 * A disabled endpoint can still have deliveries that wait, for one of three reasons. When it was disabled, there were
 * too many to mark all of them as failed; a transaction on PostgreSQL was recording an event; or a worker was sending a
 * delivery and was killed later. In the third case, the delivery is not `pending`, but its lease has expired: while a
 * delivery is being sent, `run_at` is the end of its lease.
 */
async function findStranded(read: Reader, now: Date): Promise<readonly RowKey[]> {
  return await read
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('endpoint_id', 'in', (eb) =>
      eb.selectFrom('webhook_endpoints').select('id').where('status', '=', 'disabled'),
    )
    .where('run_at', 'is not', null)
    .where(({ eb, or }) =>
      or([eb('status', '=', 'pending'), eb('run_at', '<=', now.toISOString())]),
    )
    .limit(BATCH_MAX)
    .execute()
}

async function failStranded(tx: Transaction, keys: readonly RowKey[]): Promise<void> {
  await tx
    .updateTable('webhook_deliveries')
    .set({ status: 'failed', run_at: null, lease: null })
    .where('id', 'in', idsOf(keys))
    .where('run_at', 'is not', null)
    .where(
      'endpoint_id',
      'in',
      tx.selectFrom('webhook_endpoints').select('id').where('status', '=', 'disabled'),
    )
    .execute()
}

async function findDeliveries(read: Reader, now: Date, last?: RowKey): Promise<readonly RowKey[]> {
  return await read
    .selectFrom('webhook_deliveries')
    .select(['id', 'created_at'])
    .where('created_at', '<', keptSince(now))
    .where('created_at', '>=', startOfNextBatch(last, 'created_at'))
    .where('run_at', 'is', null)
    .orderBy('created_at')
    .limit(BATCH_MAX)
    .execute()
}

async function deleteDeliveries(tx: Transaction, keys: readonly RowKey[]): Promise<void> {
  // A person may have redelivered one of the rows since `findDeliveries` found it. Such a delivery must not be deleted.
  const ended = await tx
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('id', 'in', idsOf(keys))
    .where('run_at', 'is', null)
    .forNoKeyUpdate()
    .execute()
  const ids = ended.map(({ id }) => id)
  if (ids.length === 0) return
  await tx.deleteFrom('webhook_attempts').where('delivery_id', 'in', ids).execute()
  await tx.deleteFrom('webhook_deliveries').where('id', 'in', ids).execute()
}

async function findEvents(read: Reader, now: Date, last?: RowKey): Promise<readonly RowKey[]> {
  return await read
    .selectFrom('webhook_events')
    .select(['id', 'created_at'])
    .where('created_at', '<', keptSince(now))
    .where('created_at', '>=', startOfNextBatch(last, 'created_at'))
    // With `not exists`, PostgreSQL would join all events with all deliveries for each batch.
    .where(
      ({ selectFrom }) =>
        selectFrom('webhook_deliveries')
          .select('webhook_deliveries.id')
          .whereRef('webhook_deliveries.event_id', '=', 'webhook_events.id')
          .limit(1),
      'is',
      null,
    )
    .orderBy('created_at')
    .limit(BATCH_MAX)
    .execute()
}

async function deleteEvents(tx: Transaction, keys: readonly RowKey[]): Promise<void> {
  await tx.deleteFrom('webhook_events').where('id', 'in', idsOf(keys)).execute()
}

/** Expired secrets are deleted, so that they cannot be stolen. */
async function findOldSecrets(read: Reader, now: Date): Promise<readonly RowKey[]> {
  return await read
    .selectFrom('webhook_endpoints')
    .select(['id', 'old_secret_expires_at'])
    .where('old_secret_expires_at', '<=', now.toISOString())
    .limit(BATCH_MAX)
    .execute()
}

async function deleteOldSecrets(tx: Transaction, keys: readonly RowKey[]): Promise<void> {
  for (const { id, old_secret_expires_at: expiresAt } of keys) {
    await tx
      .updateTable('webhook_endpoints')
      .set({ old_secret: null, old_secret_expires_at: null })
      .where('id', '=', String(id))
      // If the secret was rotated again meanwhile, the endpoint has another old secret, which is kept.
      .where('old_secret_expires_at', '=', String(expiresAt))
      .execute()
  }
}

function keptSince(now: Date): string {
  return new Date(now.getTime() - KEPT_MS).toISOString()
}

function idsOf(keys: readonly RowKey[]): string[] {
  return keys.map(({ id }) => String(id))
}
