/**
 * Tells of invoices that became overdue: once an invoice and due date, on the day after it where the
 * account is. That it was announced is noted also where nobody listens, so that an endpoint that is
 * made later does not begin with years of overdue invoices.
 */
import { type SqlBool, sql } from 'kysely'
import type { Logger } from '../../shared/process/log.ts'
import { startWorker, type Worker } from '../background/worker.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { Database, Reader, Transaction } from '../database/database.ts'
import { recordEvent } from '../events/events.ts'
import { renderInvoice } from './representation.ts'

/** In one transaction: a payment never waits for longer than that. */
const BATCH_MAX = 25

/** Days end at every full and some quarter hours; what is entered late is told of as soon. */
const EVERY_MS = 5 * 60_000

export interface OverdueDeps {
  readonly database: Database
  readonly clock: () => Date
  readonly log: Logger
}

export function startOverdueEvents({ database, clock, log }: OverdueDeps): Worker {
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

/** Of every account; `signal` ends it between two transactions. */
export async function announceOverdue(
  database: Database,
  now: Date,
  signal?: AbortSignal,
): Promise<void> {
  const accounts = await database.read.selectFrom('accounts').select(['id', 'timezone']).execute()
  for (const { id, timezone } of accounts) {
    const today = todayIn(timezone, now)
    // Looking costs a reader; only what is found costs the writer.
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
  // Held, so that none is paid, or announced by another backend, between the look and the event.
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
