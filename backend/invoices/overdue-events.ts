/**
 * Records `invoice.overdue` once for each invoice and due date, after the due date has ended in the account's time
 * zone. The invoice is then marked (`overdue_announced`), even if no endpoint is subscribed. Without this mark, a new
 * endpoint would first receive an event for every invoice that became overdue in past years.
 */
import { type SqlBool, sql } from 'kysely'
import { startWorker, type Worker, type WorkerDeps } from '../background/worker.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { Database, Reader, Transaction } from '../database/database.ts'
import type { AccountRow, InvoiceRow } from '../database/tables.ts'
import { isRetryable } from '../database/unavailable.ts'
import { recordEvent } from '../events/events.ts'
import { representInvoice } from './representation.ts'

/** How many invoices one transaction processes. A payment may have to wait until such a transaction ends. */
const BATCH_MAX = 25

/**
 * `invoice.overdue` is recorded at most about this long after midnight in the account's time zone, or after the
 * creation of an invoice that is already overdue.
 */
const EVERY_MS = 5 * 60_000

export function startOverdueEvents({ database, clock, log }: WorkerDeps): Worker {
  return startWorker({
    name: 'looking for overdue invoices',
    everyMs: EVERY_MS,
    log,
    database,
    async round(signal) {
      await recordOverdueEvents({ database, log }, clock(), signal)
      return undefined
    },
  })
}

/**
 * Processes all accounts. An account that cannot be processed, e.g. because this version of Node.js does not know its
 * time zone, is logged and delays no other account. Throws retryable errors, e.g. if the database is unavailable. If
 * `signal` is aborted, stops after the current transaction.
 */
export async function recordOverdueEvents(
  { database, log }: Pick<WorkerDeps, 'database' | 'log'>,
  now: Date,
  signal?: AbortSignal,
): Promise<void> {
  const accounts = await database.read.selectFrom('accounts').select(['id', 'timezone']).execute()
  for (const account of accounts) {
    try {
      await recordOverdueEventsOf(database, account, now, signal)
    } catch (error) {
      if (isRetryable(error)) throw error
      log.error({ err: error, account: account.id }, 'overdue invoices cannot be reported')
    }
  }
}

async function recordOverdueEventsOf(
  database: Database,
  { id, timezone }: Pick<AccountRow, 'id' | 'timezone'>,
  now: Date,
  signal?: AbortSignal,
): Promise<void> {
  const today = todayIn(timezone, now)
  // This read avoids transactions that would find nothing: SQLite has only one write connection, and requests need it.
  while (
    !signal?.aborted &&
    (await selectUnannounced(database.read, id, today, 1).execute()).length > 0
  ) {
    await database.transaction((tx) => recordBatch(tx, id, today, now))
  }
}

async function recordBatch(
  tx: Transaction,
  accountId: string,
  today: string,
  now: Date,
): Promise<void> {
  const found = await selectUnannounced(tx, accountId, today, BATCH_MAX).execute()
  if (found.length === 0) return
  await lockDebtorsOf(tx, found)
  // Before the lock was acquired, an invoice may have been changed, or another backend may have recorded its event.
  const ids = found.map(({ id }) => id)
  const rows = await selectUnannounced(tx, accountId, today, BATCH_MAX)
    .where('id', 'in', ids)
    .execute()
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
      represent: () => representInvoice(row, today),
      // On its due date, the invoice was not overdue yet.
      representBefore: () => representInvoice(row, row.due_date),
    } as const
    await recordEvent(tx, event, now)
  }
}

/** Locks the debtors in the order of their ids, as other transactions do, to prevent deadlocks. */
async function lockDebtorsOf(
  tx: Transaction,
  invoices: readonly Pick<InvoiceRow, 'debtor_id'>[],
): Promise<void> {
  await tx
    .selectFrom('debtors')
    .select('id')
    .where('id', 'in', [...new Set(invoices.map(({ debtor_id }) => debtor_id))])
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
}

function selectUnannounced(reader: Reader, accountId: string, today: string, limit: number) {
  // Only literals, not parameters, match the condition of a partial index.
  return reader
    .selectFrom('invoices')
    .selectAll()
    .where('account_id', '=', accountId)
    .where(sql<SqlBool>`status in ('open', 'partially_paid') and overdue_announced = 0`)
    .where('due_date', '<', today)
    .orderBy('due_date')
    .limit(limit)
}
