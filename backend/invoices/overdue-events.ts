/**
 * Records `invoice.overdue` once for each invoice and due date, on the following day in the account's time
 * zone. The mark is also set if no endpoint is subscribed: otherwise an endpoint created later would first
 * receive years of overdue invoices.
 */
import { type SqlBool, sql } from 'kysely'
import { startWorker, type Worker, type WorkerDeps } from '../background/worker.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { Database, Reader, Transaction } from '../database/database.ts'
import { recordEvent } from '../events/events.ts'
import { renderInvoice } from './representation.ts'

/** Invoices in one transaction: a payment waits at most for one such transaction. */
const BATCH_MAX = 25

/**
 * In every time zone, days end at a quarter of an hour of UTC, of which this interval is a part. Invoices that
 * are already overdue when they are created are announced within the interval too.
 */
const EVERY_MS = 5 * 60_000

export function startOverdueEvents({ database, clock, log }: WorkerDeps): Worker {
  return startWorker({
    name: 'looking for overdue invoices',
    everyMs: EVERY_MS,
    log,
    async round(signal) {
      await announceOverdue(database, clock(), signal)
      return undefined
    },
  })
}

/** Processes all accounts; `signal` ends the run between two transactions. */
export async function announceOverdue(
  database: Database,
  now: Date,
  signal?: AbortSignal,
): Promise<void> {
  const accounts = await database.read.selectFrom('accounts').select(['id', 'timezone']).execute()
  for (const { id, timezone } of accounts) {
    const today = todayIn(timezone, now)
    // The check uses a read connection; the only write connection is used only if there is something to write.
    while (
      !signal?.aborted &&
      (await selectUnannounced(database.read, id, today, 1).execute()).length > 0
    ) {
      await database.transaction((tx) => announce(tx, id, today, now))
    }
  }
}

async function announce(
  tx: Transaction,
  accountId: string,
  today: string,
  now: Date,
): Promise<void> {
  // The lock prevents a payment, or an announcement by another backend, between this query and the event.
  const rows = await selectUnannounced(tx, accountId, today, BATCH_MAX).forNoKeyUpdate().execute()
  if (rows.length === 0) return
  await tx
    .updateTable('invoices')
    .set({ overdue_announced: 1 })
    .where(
      'id',
      'in',
      rows.map(({ id }) => id),
    )
    .execute()
  for (const row of rows) {
    const event = {
      accountId,
      type: 'invoice.overdue',
      subjectId: row.id,
      render: () => renderInvoice(row, today),
      renderBefore: () => renderInvoice(row, row.due_date),
    } as const
    await recordEvent(tx, event, now)
  }
}

function selectUnannounced(reader: Reader, accountId: string, today: string, limit: number) {
  return reader
    .selectFrom('invoices')
    .selectAll()
    .where('account_id', '=', accountId)
    .where(sql<SqlBool>`status in ('open', 'partially_paid') and overdue_announced = 0`)
    .where('due_date', '<', today)
    .orderBy('due_date')
    .limit(limit)
}
