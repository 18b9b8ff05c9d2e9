/**
 * Warns Admins before keys expire, and records that keys have expired. Expired keys are rejected even if this worker is
 * late: authentication compares `expires_at` with the clock. The column `expiry_due_at` is the time of the next warning
 * or, after the last warning, of the expiry.
 */
import { startWorker, type Worker, type WorkerDeps } from '../background/worker.ts'
import type { Database, Transaction } from '../database/database.ts'
import type { ApiKeyRow } from '../database/tables.ts'
import { recordEvent } from '../events/events.ts'
import { recordNotice } from '../mail/notices.ts'
import { isExpired, nextWarningOrExpiry } from './key-status.ts'
import { representApiKey } from './representation.ts'

const EVERY_MS = 30_000
const BATCH_MAX = 100

export function startKeyExpiry({ database, clock, log }: WorkerDeps): Worker {
  return startWorker({
    name: 'recording the expiry of keys',
    everyMs: EVERY_MS,
    log,
    database,
    async round(signal) {
      await recordKeyExpiry(database, clock(), signal)
      return undefined
    },
  })
}

/** Records the due warnings and expiries of all accounts. `signal` ends the run between two transactions. */
export async function recordKeyExpiry(
  database: Database,
  now: Date,
  signal?: AbortSignal,
): Promise<void> {
  for (let found = BATCH_MAX; found === BATCH_MAX; ) {
    const due = await database.read
      .selectFrom('api_keys')
      .select('id')
      .where('expiry_due_at', '<=', now.toISOString())
      .orderBy('expiry_due_at')
      .limit(BATCH_MAX)
      .execute()
    found = due.length
    for (const { id } of due) {
      if (signal?.aborted) return
      await database.transaction((tx) => recordWarningOrExpiry(tx, id, now))
    }
  }
}

/** Does nothing if another backend has already recorded the warning or the expiry. */
async function recordWarningOrExpiry(tx: Transaction, id: string, now: Date): Promise<void> {
  const row = await tx
    .selectFrom('api_keys')
    .selectAll()
    .where('id', '=', id)
    .where('expiry_due_at', '<=', now.toISOString())
    .forNoKeyUpdate()
    .executeTakeFirst()
  if (row === undefined) return
  await (isExpired(row, now) ? recordExpiry(tx, row, now) : recordWarning(tx, row, now))
}

async function recordExpiry(tx: Transaction, row: ApiKeyRow, now: Date): Promise<void> {
  const expired = await tx
    .updateTable('api_keys')
    .set({ expired_at: now.toISOString(), expiry_due_at: null })
    // Invalidates the principals of the key that gateways have cached.
    .set((set) => ({ revision: set('revision', '+', 1) }))
    .where('id', '=', row.id)
    .returningAll()
    .executeTakeFirstOrThrow()
  const event = {
    accountId: row.account_id,
    type: 'api_key.expired',
    subjectId: row.id,
    represent: () => representApiKey(expired, now),
    // `representApiKey` compares `expires_at` with the clock, so it would represent the previous state as expired too.
    representBefore: () => ({ ...representApiKey(row, now), status: 'active' }),
  } as const
  await recordEvent(tx, event, now)
}

async function recordWarning(tx: Transaction, row: ApiKeyRow, now: Date): Promise<void> {
  const { id, account_id: accountId, name, prefix, expires_at } = row
  await tx
    .updateTable('api_keys')
    .set({ expiry_due_at: nextWarningOrExpiry(expires_at, now) })
    .where('id', '=', id)
    .execute()
  const represent = () => representApiKey(row, now)
  await recordEvent(tx, { accountId, type: 'api_key.expiring', subjectId: id, represent }, now)
  const detail = { name, prefix, expires_at: expires_at ?? '' }
  await recordNotice(tx, { accountId, kind: 'api_key.expiring', subjectId: id, detail }, now)
}
