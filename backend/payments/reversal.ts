/**
 * Reverses a payment that bounced or was recorded by mistake. One transaction undoes all its effects on invoices and
 * balances; the payment and its allocations are kept.
 */
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { checkReason } from '../accounts/reason.ts'
import type { Transaction } from '../database/database.ts'
import { nextRevision } from '../database/revision.ts'
import type { PaymentRow } from '../database/tables.ts'
import { markDebtorUpdated } from '../debtors/debtors.ts'
import { recordEvent } from '../events/events.ts'
import { findInvoices } from '../invoices/invoices.ts'
import { reopenInvoice } from '../invoices/reopening.ts'
import { stopMessages } from '../messages/cancel-messages.ts'
import { lockUnreversedPayment } from './locked-payment.ts'
import { type Allocation, readAllocations } from './payment-list.ts'
import { representPayment } from './representation.ts'

/**
 * `clear: { external_id: null }` removes the payment's external id, so that another payment can use it. Throws
 * `not_found`, `payment_already_reversed` or, if the reason is missing or invalid, `validation_failed`.
 */
export async function reversePayment(
  tx: Transaction,
  accountId: string,
  id: string,
  reason: string,
  actionContext: ActionContext,
  clear: { readonly external_id?: null } = {},
): Promise<PaymentRow> {
  const checkedReason = checkReason(reason)
  const payment = await lockUnreversedPayment(tx, accountId, id)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'payment.reversed',
    subjectId: id,
    detail: { amount: payment.amount, currency: payment.currency, reason: checkedReason },
  })
  const allocations = (await readAllocations(tx, accountId, [id])).get(id) ?? []
  await reopenInvoices(tx, accountId, allocations, actionContext.now)
  await markDebtorUpdated(tx, accountId, payment.debtor_id, actionContext.now)
  const reversed = await tx
    .updateTable('payments')
    .set({ status: 'reversed', ...clear, ...nextRevision(tx, actionContext.now.toISOString()) })
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  const event = {
    accountId,
    type: 'payment.reversed',
    subjectId: id,
    represent: () => representPayment(reversed, allocations),
    representBefore: () => representPayment(payment, allocations),
  } as const
  await recordEvent(tx, event, actionContext.now)
  return reversed
}

/**
 * Adds the allocated amounts to what is due on the invoices, and cancels the waiting messages about these invoices,
 * because the amounts in the messages are now wrong.
 */
async function reopenInvoices(
  tx: Transaction,
  accountId: string,
  allocations: readonly Allocation[],
  now: Date,
): Promise<void> {
  if (allocations.length === 0) return
  const ids = allocations.map(({ invoice_id }) => invoice_id)
  const invoices = new Map((await findInvoices(tx, accountId, ids)).map((row) => [row.id, row]))
  for (const { invoice_id: id, amount } of allocations) {
    const invoice = invoices.get(id)
    // This row is still current: a payment has at most one allocation to an invoice, so the loop has not changed the
    // invoice before.
    if (invoice !== undefined) await reopenInvoice(tx, invoice, amount, now)
  }
  await stopMessages(tx, accountId, ids, now, 'a payment was reversed')
}
