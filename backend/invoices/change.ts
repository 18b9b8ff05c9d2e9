import type { Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import { stampOf } from '../database/stamp.ts'
import type { InvoiceRow } from '../database/tables.ts'
import type { EventType } from '../events/event-types.ts'
import { recordEvent } from '../events/events.ts'
import { renderInvoice } from './representation.ts'

export type InvoiceChange = Partial<
  Omit<InvoiceRow, 'id' | 'account_id' | 'debtor_id' | 'updated_at' | 'revision'>
>

/** Writes the change to an invoice whose debtor the caller holds, and tells of it by `event` if any. */
export async function changeInvoice(
  tx: Transaction,
  before: InvoiceRow,
  change: InvoiceChange,
  event: EventType | null,
  now: Date,
): Promise<InvoiceRow> {
  const { id, account_id } = before
  const [stamped] = await updateInvoice(tx, { ...change, id, account_id, at: now.toISOString() })
  const row = { ...before, ...change, ...stamped }
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
    {
      id,
      account_id,
      at,
      ...change
    }: InvoiceChange & Pick<InvoiceRow, 'id' | 'account_id'> & { readonly at: string },
  ) =>
    tx
      .updateTable('invoices')
      .set({ ...change, ...stampOf(tx, at) })
      .where('account_id', '=', account_id)
      .where('id', '=', id)
      .returning(['updated_at', 'revision']),
)
