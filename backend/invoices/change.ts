import assert from 'node:assert'
import type { Transaction } from '../database/database.ts'
import { oncePerTransaction } from '../database/once-per-transaction.ts'
import { prepared } from '../database/prepared.ts'
import { nextRevisionOf } from '../database/revision.ts'
import { INVOICE_COLUMNS } from '../database/tables/invoices.ts'
import type { InvoiceRow, InvoiceRowWithOptionalLines } from '../database/tables.ts'
import type { EventType } from '../events/event-types.ts'
import { recordEvent } from '../events/events.ts'
import { representInvoice } from './representation.ts'

export type InvoiceChange = Partial<
  Omit<InvoiceRow, 'id' | 'account_id' | 'debtor_id' | 'updated_at' | 'revision'>
>

/** Writes a change to an invoice, and records `event` if it is not null. The caller must have locked the debtor. */
export async function changeInvoice<Row extends InvoiceRowWithOptionalLines>(
  tx: Transaction,
  before: Row,
  change: InvoiceChange,
  event: EventType | null,
  now: Date,
): Promise<Row> {
  const { id, account_id } = before
  const changed = changedColumns(before, change)
  const revised = nextRevisionOf(before, now)
  await updateInvoice(tx, { ...changed, ...revised, id, account_id })
  const row = { ...before, ...change, ...revised }
  if (event !== null) await recordInvoiceEvent(tx, before, row, event, now)
  return row
}

/**
 * Omits the columns that keep their values. SQLite rewrites an index entry whenever an update names one of the index's
 * columns, even if the value is the same.
 */
function changedColumns(before: InvoiceRowWithOptionalLines, change: InvoiceChange): InvoiceChange {
  const changed: Partial<InvoiceRow> = { ...change }
  for (const name of INVOICE_COLUMNS) if (changed[name] === before[name]) delete changed[name]
  return changed
}

/** Records an event with the invoice before and after a change that `changeInvoice` has written. */
export async function recordInvoiceEvent(
  tx: Transaction,
  before: InvoiceRowWithOptionalLines,
  row: InvoiceRowWithOptionalLines,
  type: EventType,
  now: Date,
): Promise<void> {
  const event = {
    accountId: row.account_id,
    type,
    subjectId: row.id,
    represent: async (today: string) => representInvoice(await withLines(tx, row), today),
    representBefore: async (today: string) => representInvoice(await withLines(tx, before), today),
  }
  await recordEvent(tx, event, now)
}

async function withLines(tx: Transaction, row: InvoiceRowWithOptionalLines): Promise<InvoiceRow> {
  return { ...row, line_items: row.line_items ?? (await readLines(tx, row.id)) }
}

/** Reading once is enough, because the lines of an invoice never change. */
const readLines = oncePerTransaction(async (tx, id) => {
  const [row] = await selectLines(tx, { id })
  assert(row !== undefined, 'a changed invoice must exist')
  return row.line_items
})

const selectLines = prepared((tx: Transaction, { id }: { readonly id: string }) =>
  tx.selectFrom('invoices').select('line_items').where('id', '=', id),
)

/** Each combination of columns has its own prepared statement. */
type InvoiceUpdate = InvoiceChange &
  Pick<InvoiceRow, 'id' | 'account_id' | 'updated_at' | 'revision'>

const updateInvoice = prepared((tx: Transaction, { id, account_id, ...changed }: InvoiceUpdate) =>
  tx.updateTable('invoices').set(changed).where('account_id', '=', account_id).where('id', '=', id),
)
