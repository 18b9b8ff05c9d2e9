import type { Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import type { InvoiceRow } from '../database/tables.ts'
import type { EventType } from '../events/event-types.ts'
import { recordEvent } from '../events/events.ts'
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
  await updateInvoice(tx, { ...changed, id: before.id, account_id: before.account_id })
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

const updateInvoice = prepared(
  (
    tx: Transaction,
    { id, account_id, ...change }: InvoiceChange & Pick<InvoiceRow, 'id' | 'account_id'>,
  ) =>
    tx
      .updateTable('invoices')
      .set(change)
      .where('account_id', '=', account_id)
      .where('id', '=', id),
)
