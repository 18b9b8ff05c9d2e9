/** The log is kept for 30 days. What still waits, for a paused endpoint, is kept with its event. */

import { BATCH_MAX, DAY_MS, type Forgetting, type Key } from '../database/forgetting.ts'
import type { Reader, Transaction } from '../database/tables.ts'

const KEPT_MS = 30 * DAY_MS

/** In this order: an event goes when its last delivery is gone. */
export const FORGETTING_WEBHOOKS: readonly Forgetting[] = [
  { what: 'webhook deliveries', find: findDeliveries, forget: forgetDeliveries },
  { what: 'webhook events', find: findEvents, forget: forgetEvents },
  { what: 'webhook secrets', find: findSecrets, forget: forgetSecrets },
]

async function findDeliveries(read: Reader, now: Date): Promise<readonly Key[]> {
  return await read
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('created_at', '<', tooOld(now))
    .where('run_at', 'is', null)
    .limit(BATCH_MAX)
    .execute()
}

async function forgetDeliveries(tx: Transaction, keys: readonly Key[]): Promise<void> {
  await tx.deleteFrom('webhook_attempts').where('delivery_id', 'in', idsOf(keys)).execute()
  await tx.deleteFrom('webhook_deliveries').where('id', 'in', idsOf(keys)).execute()
}

async function findEvents(read: Reader, now: Date): Promise<readonly Key[]> {
  return await read
    .selectFrom('webhook_events')
    .select('id')
    .where('created_at', '<', tooOld(now))
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('webhook_deliveries')
            .select('webhook_deliveries.id')
            .whereRef('webhook_deliveries.event_id', '=', 'webhook_events.id'),
        ),
      ),
    )
    .limit(BATCH_MAX)
    .execute()
}

async function forgetEvents(tx: Transaction, keys: readonly Key[]): Promise<void> {
  await tx.deleteFrom('webhook_events').where('id', 'in', idsOf(keys)).execute()
}

/** What no longer signs need not be there to be stolen. */
async function findSecrets(read: Reader, now: Date): Promise<readonly Key[]> {
  return await read
    .selectFrom('webhook_endpoints')
    .select(['id', 'old_secret_expires_at'])
    .where('old_secret_expires_at', '<=', now.toISOString())
    .limit(BATCH_MAX)
    .execute()
}

async function forgetSecrets(tx: Transaction, keys: readonly Key[]): Promise<void> {
  for (const { id, old_secret_expires_at: expiresAt } of keys) {
    await tx
      .updateTable('webhook_endpoints')
      .set({ old_secret: null, old_secret_expires_at: null })
      .where('id', '=', String(id))
      // Not one of a rotation since.
      .where('old_secret_expires_at', '=', String(expiresAt))
      .execute()
  }
}

function tooOld(now: Date): string {
  return new Date(now.getTime() - KEPT_MS).toISOString()
}

function idsOf(keys: readonly Key[]): string[] {
  return keys.map(({ id }) => String(id))
}
