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

/** Writes a change to an invoice whose debtor the caller has locked, and records `event` if there is one. */
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
  if (event !== null) await announceChange(tx, before, row, event, now)
  return row
}

/** Records a further event for a change made by `changeInvoice`. */
export async function announceChange(
  tx: Transaction,
  before: InvoiceRow,
  row: InvoiceRow,
  type: EventType,
  now: Date,
): Promise<void> {
  const event = {
    accountId: row.account_id,
    type,
    subjectId: row.id,
    render: (today: string) => renderInvoice(row, today),
    renderBefore: (today: string) => renderInvoice(before, today),
  }
  await recordEvent(tx, event, now)
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
