import type { Transaction } from '../database/database.ts'
import type { InvoiceRow } from '../database/tables.ts'
import type { EventType } from '../webhooks/event-types.ts'
import { recordEvent } from '../webhooks/events.ts'
import { renderInvoice } from './representation.ts'

export type InvoiceChange = Partial<Omit<InvoiceRow, 'id' | 'account_id' | 'debtor_id'>>

/** Writes the change to an invoice whose debtor the caller holds, and tells of it by `event` if any. */
export async function changeInvoice(
  tx: Transaction,
  before: InvoiceRow,
  change: InvoiceChange,
  event: EventType | null,
  now: Date,
): Promise<InvoiceRow> {
  const changed = { ...change, updated_at: now.toISOString() }
  await tx
    .updateTable('invoices')
    .set(changed)
    .where('account_id', '=', before.account_id)
    .where('id', '=', before.id)
    .execute()
  const row = { ...before, ...changed }
  if (event === null) return row
  await recordEvent(
    tx,
    {
      accountId: row.account_id,
      type: event,
      subjectId: row.id,
      render: (today) => renderInvoice(row, today),
      renderBefore: (today) => renderInvoice(before, today),
    },
    now,
  )
  return row
}
