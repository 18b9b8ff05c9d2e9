/**
 * Changes the due date, purchase order number, notes or payment link of an invoice that is a draft, open or partially
 * paid. The amount, the number and the customer cannot be edited; a credit reduces the amount due.
 */
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { InvoiceRow, Transaction } from '../database/tables.ts'
import { markDebtorUpdated } from '../debtors/debtors.ts'
import { stopMessages } from '../messages/cancel-messages.ts'
import { replanInvoices } from '../reminders/planning/planning.ts'
import { fieldErrorsProblem } from '../validation/field-errors.ts'
import { invoiceStateConflict, isOpen, lockInvoice } from './actions.ts'
import { changeInvoice } from './change.ts'

/** An absent member leaves its value unchanged; null removes the value. */
export interface InvoiceEdit {
  readonly dueDate?: string
  readonly poNumber?: string | null
  readonly notes?: string | null
  readonly paymentUrl?: string | null
}

/**
 * If a value changes, cancels the waiting reminders about the invoice, and plans new ones about all invoices of the
 * cancelled reminders. Throws `not_found`, `invoice_state_conflict` and, if the due date is before the issue date,
 * `validation_failed`.
 */
export async function editInvoice(
  tx: Transaction,
  accountId: string,
  id: string,
  edit: InvoiceEdit,
  actionContext: ActionContext,
): Promise<InvoiceRow> {
  const invoice = await lockInvoice(tx, accountId, id)
  if (!isOpen(invoice) && invoice.status !== 'draft') throw invoiceStateConflict(invoice, 'edited')
  const change = changeOf(invoice, edit)
  const changedColumns = Object.keys(change)
  if (changedColumns.length === 0) return invoice
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'invoice.edited',
    subjectId: id,
    detail: { number: invoice.number, changed: changedColumns },
  })
  const isDueDateChanged = 'due_date' in change
  // `invoice.overdue` is recorded when the new due date has passed, even if it was recorded for the old one.
  const overdueReset = isDueDateChanged ? ({ overdue_announced: 0 } as const) : {}
  const row = await changeInvoice(
    tx,
    invoice,
    { ...change, ...overdueReset },
    'invoice.updated',
    actionContext.now,
  )
  await markDebtorUpdated(tx, accountId, row.debtor_id, actionContext.now)
  const reason = `invoice ${row.number} was edited`
  const stopped = await stopMessages(tx, accountId, [id], actionContext.now, reason)
  const debtor = { id: row.debtor_id, account_id: accountId }
  const cancelledMessageIds = stopped.cancelledIds
  await replanInvoices(tx, debtor, { cancelledMessageIds }, actionContext.now)
  return row
}

function changeOf(invoice: InvoiceRow, edit: InvoiceEdit) {
  const { dueDate, poNumber, notes, paymentUrl } = edit
  if (dueDate !== undefined && dueDate < invoice.issue_date) {
    const detail = `due_date must not be before the issue date, ${invoice.issue_date}`
    throw fieldErrorsProblem([{ pointer: '/due_date', code: 'out_of_range', detail }])
  }
  return {
    ...(dueDate !== undefined && dueDate !== invoice.due_date && { due_date: dueDate }),
    ...(poNumber !== undefined && poNumber !== invoice.po_number && { po_number: poNumber }),
    ...(notes !== undefined && notes !== invoice.notes && { notes }),
    ...(paymentUrl !== undefined &&
      paymentUrl !== invoice.payment_url && { payment_url: paymentUrl }),
  }
}
