/**
 * An "old" invoice is one that was created with `chase_if_overdue: false`, e.g. by an import, when it was already past
 * due. No reminder is sent about it until a person resumes chasing; then it is no longer an old invoice.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Reader } from '../database/tables.ts'

/** Counting and summing stop at this number of invoices, so that the pages that show the totals load quickly. */
const COUNTED_MAX = 1000

/** Totals of up to `COUNTED_MAX` old invoices. */
export interface OldInvoices {
  readonly invoices: number
  /** Whether there are more than `COUNTED_MAX` invoices. */
  readonly hasMore: boolean
  /** The number of customers who owe the counted invoices. */
  readonly customers: number
  /** The amounts due on the counted invoices by currency, in minor units. */
  readonly due: ReadonlyMap<string, number>
}

/**
 * Selects the old invoices that are owed and not disputed; a disputed invoice has the reason `disputed` instead of
 * `history`. Only literals, not parameters, match the condition of a partial index.
 */
export const IS_OLD: RawBuilder<boolean> = sql<boolean>`chasing_blocked_reason = 'history' and chasing_status = 'stopped' and status in ('open', 'partially_paid')`

export async function readOldInvoices(reader: Reader, accountId: string): Promise<OldInvoices> {
  const rows = await reader
    .selectFrom('invoices')
    .select(['debtor_id', 'currency', 'amount_due'])
    .where('account_id', '=', accountId)
    .where(IS_OLD)
    // The order makes SQLite use the index `invoices_by_history`. Otherwise it may read all open invoices.
    .orderBy('debtor_id')
    .limit(COUNTED_MAX + 1)
    .execute()
  const counted = rows.slice(0, COUNTED_MAX)
  const due = new Map<string, number>()
  for (const { currency, amount_due } of counted) {
    due.set(currency, (due.get(currency) ?? 0) + amount_due)
  }
  return {
    invoices: counted.length,
    hasMore: rows.length > COUNTED_MAX,
    customers: new Set(counted.map(({ debtor_id }) => debtor_id)).size,
    due,
  }
}

/** Returns up to `limit` debtors that have old invoices, in the order of their ids, beginning after the id `after`. */
export async function listDebtorsWithOldInvoices(
  reader: Reader,
  accountId: string,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<string[]> {
  const rows = await reader
    .selectFrom('invoices')
    .select('debtor_id')
    .distinct()
    .where('account_id', '=', accountId)
    .where('debtor_id', '>', after)
    .where(IS_OLD)
    .orderBy('debtor_id')
    .limit(limit)
    .execute()
  return rows.map(({ debtor_id }) => debtor_id)
}
