/**
 * Credits reduce what is owed on an invoice, for a stated reason. A credit never exceeds the amount due, so
 * that it can neither undo a payment nor make the debtor a creditor.
 */
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { checkReason } from '../accounts/reason.ts'
import type { InvoiceRow, Transaction } from '../database/tables.ts'
import { markDebtorUpdated } from '../debtors/debtors.ts'
import { stopMessages } from '../messages/cancel-messages.ts'
import { replanInvoices } from '../reminders/planning/planning.ts'
import { stopRemindersCoveredByMoneyOnAccount } from '../reminders/planning/stop-covered-reminders.ts'
import { fieldErrorsProblem } from '../validation/field-errors.ts'
import { invoiceStateConflict, isOpen, lockInvoice } from './actions.ts'
import { changeInvoice, recordInvoiceEvent } from './change.ts'
import { paidInFullChange } from './settlement.ts'

export interface Credit {
  /** In minor units, more than 0. */
  readonly amount: number
  readonly reason: string
}

/**
 * Credits an invoice, and replans waiting reminders with the new amount due. Throws `not_found`,
 * `invoice_state_conflict`, and `validation_failed` if the reason is invalid or the credit exceeds the amount due.
 */
export async function creditInvoice(
  tx: Transaction,
  accountId: string,
  id: string,
  { amount, reason: enteredReason }: Credit,
  actionContext: ActionContext,
): Promise<InvoiceRow> {
  const reason = checkReason(enteredReason)
  const invoice = await lockInvoice(tx, accountId, id)
  if (!isOpen(invoice)) throw invoiceStateConflict(invoice, 'credited')
  rejectExcessiveCredit(invoice, amount)
  const { number, currency, debtor_id: debtorId } = invoice
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'invoice.credited',
    subjectId: id,
    detail: { number, amount, currency, reason },
  })
  const amountDue = invoice.amount_due - amount
  const change = {
    amount_credited: invoice.amount_credited + amount,
    amount_due: amountDue,
    ...(amountDue === 0 && paidInFullChange(invoice, actionContext.now)),
  }
  const row = await changeInvoice(tx, invoice, change, 'invoice.credited', actionContext.now)
  if (amountDue === 0) await recordInvoiceEvent(tx, invoice, row, 'invoice.paid', actionContext.now)
  await markDebtorUpdated(tx, accountId, debtorId, actionContext.now)
  await replanReminders(tx, row, actionContext.now)
  return row
}

function rejectExcessiveCredit({ amount_due: due, number }: InvoiceRow, amount: number): void {
  if (amount <= due) return
  const detail = `amount must be at most ${due}, the amount due on invoice ${number}`
  throw fieldErrorsProblem([{ pointer: '/amount', code: 'out_of_range', detail }])
}

/**
 * Replans the reminders about the invoice and about other invoices of the debtor. Since less is due on this invoice,
 * money on account may now cover the others.
 */
async function replanReminders(tx: Transaction, row: InvoiceRow, now: Date): Promise<void> {
  const debtor = { id: row.debtor_id, account_id: row.account_id }
  const reason = `invoice ${row.number} was credited`
  const aboutThis = await stopMessages(tx, row.account_id, [row.id], now, reason)
  const aboutOthers = await stopRemindersCoveredByMoneyOnAccount(
    tx,
    debtor,
    { detail: reason },
    now,
  )
  const cancelledMessageIds = [...aboutThis.cancelledIds, ...aboutOthers.cancelledIds]
  await replanInvoices(tx, debtor, { cancelledMessageIds }, now)
}
