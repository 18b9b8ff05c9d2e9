import type { Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import { nextStamp } from '../database/stamp.ts'
import { INVOICE_COLUMNS } from '../database/tables/invoices.ts'
import type { InvoiceRow } from '../database/tables.ts'
import type { EventType } from '../events/event-types.ts'
import { recordEvent } from '../events/events.ts'
import { renderInvoice } from './representation.ts'

export type InvoiceChange = Partial<
  Omit<InvoiceRow, 'id' | 'account_id' | 'debtor_id' | 'updated_at' | 'revision'>
>

/** Writes a change to an invoice, and records `event` if it is not null. The caller must have locked the debtor. */
export async function changeInvoice(
  tx: Transaction,
  before: InvoiceRow,
  change: InvoiceChange,
  event: EventType | null,
  now: Date,
): Promise<InvoiceRow> {
  const { id, account_id } = before
  const changed = changedMembers(before, change)
  const stamp = nextStamp(before, now)
  await updateInvoice(tx, { ...changed, ...stamp, id, account_id })
  const row = { ...before, ...change, ...stamp }
  if (event !== null) await recordInvoiceEvent(tx, before, row, event, now)
  return row
}

/**
 * Omits the columns that keep their values. SQLite rewrites an index entry whenever an update names one of the
 * index's columns, even if the value is the same, and several indexes of invoices contain the status.
 */
function changedMembers(before: InvoiceRow, change: InvoiceChange): InvoiceChange {
  const changed: Partial<InvoiceRow> = { ...change }
  for (const name of INVOICE_COLUMNS) if (changed[name] === before[name]) delete changed[name]
  return changed
}

/** Records an event with the invoice before and after a change that `changeInvoice` has written. */
export async function recordInvoiceEvent(
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

/** The columns that an update names, with their new values. */
type Changed = InvoiceChange & Pick<InvoiceRow, 'id' | 'account_id' | 'updated_at' | 'revision'>

const updateInvoice = prepared((tx: Transaction, { id, account_id, ...changed }: Changed) =>
  tx.updateTable('invoices').set(changed).where('account_id', '=', account_id).where('id', '=', id),
)
