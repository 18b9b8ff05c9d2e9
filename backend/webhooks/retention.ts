/** The log is kept for 30 days. What still waits, for a paused endpoint, is kept with its event. */
import type { Logger } from '../../shared/log.ts'
import type { Database } from '../database/database.ts'
import type { Transaction } from '../database/tables.ts'
import { type Periodic, startPeriodic } from '../periodic.ts'

const KEPT_MS = 30 * 24 * 3_600_000
const EVERY_MS = 600_000

/** In one transaction: a payment never waits for longer than that. */
const BATCH_MAX = 100

export interface RetentionDeps {
  readonly database: Database
  readonly clock: () => Date
  readonly log: Logger
}

export function startRetention({ database, clock, log }: RetentionDeps): Periodic {
  return startPeriodic({
    name: 'forgetting old webhook deliveries',
    everyMs: EVERY_MS,
    log,
    work: (signal) => forgetOld(database, clock(), signal),
  })
}

/** `signal` ends it between two transactions. */
export async function forgetOld(
  database: Database,
  now: Date,
  signal?: AbortSignal,
): Promise<void> {
  const before = new Date(now.getTime() - KEPT_MS).toISOString()
  const { read } = database
  while (!signal?.aborted) {
    const deliveries = await read
      .selectFrom('webhook_deliveries')
      .select('id')
      .where('created_at', '<', before)
      .where('run_at', 'is', null)
      .limit(BATCH_MAX)
      .execute()
    const ids = deliveries.map(({ id }) => id)
    if (ids.length === 0) break
    await database.transaction((tx) => forgetDeliveries(tx, ids))
  }
  while (!signal?.aborted) {
    const events = await read
      .selectFrom('webhook_events')
      .select('id')
      .where('created_at', '<', before)
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
    const ids = events.map(({ id }) => id)
    if (ids.length === 0) break
    await database.transaction((tx) =>
      tx.deleteFrom('webhook_events').where('id', 'in', ids).execute(),
    )
  }
  await forgetOldSecrets(database, now)
}

async function forgetDeliveries(tx: Transaction, ids: readonly string[]): Promise<void> {
  await tx.deleteFrom('webhook_attempts').where('delivery_id', 'in', ids).execute()
  await tx.deleteFrom('webhook_deliveries').where('id', 'in', ids).execute()
}

/** What no longer signs need not be there to be stolen. */
async function forgetOldSecrets(database: Database, now: Date): Promise<void> {
  const expired = await database.read
    .selectFrom('webhook_endpoints')
    .select('id')
    .where('old_secret_expires_at', '<=', now.toISOString())
    .execute()
  if (expired.length === 0) return
  await database.transaction((tx) =>
    tx
      .updateTable('webhook_endpoints')
      .set({ old_secret: null, old_secret_expires_at: null })
      .where('old_secret_expires_at', '<=', now.toISOString())
      .execute(),
  )
}
