/**
 * A payment that did not hold: it bounced, or was recorded by mistake. Everything it did is undone in
 * one transaction; the payment stays, with what was allocated, and says that it was reversed.
 */

import { Problem } from '../../shared/contract/problem.ts'
import { type Act, recordAudit } from '../accounts/audit.ts'
import { checkReason } from '../accounts/reason.ts'
import type { Reader, Transaction } from '../database/database.ts'
import { stampOf } from '../database/stamp.ts'
import type { PaymentRow } from '../database/tables.ts'
import { holdDebtor, touchDebtor } from '../debtors/debtors.ts'
import { recordEvent } from '../events/events.ts'
import { findInvoices } from '../invoices/invoices.ts'
import { reopenInvoice } from '../invoices/reopening.ts'
import { stopMessages } from '../messages/messages.ts'
import { type Allocation, readAllocations } from './payment-list.ts'
import { renderPayment } from './representation.ts'

/** Throws `payment_already_reversed`, `not_found`, and `validation_failed` without a reason. */
export async function reversePayment(
  tx: Transaction,
  accountId: string,
  id: string,
  reason: string,
  act: Act,
): Promise<PaymentRow> {
  const detail = checkReason(reason)
  const payment = await lockPayment(tx, accountId, id)
  if (payment.status === 'reversed') throw alreadyReversed(payment)
  await recordAudit(tx, act, {
    accountId,
    action: 'payment.reversed',
    subjectId: id,
    detail: { amount: payment.amount, currency: payment.currency, reason: detail },
  })
  const allocations = (await readAllocations(tx, accountId, [id])).get(id) ?? []
  await giveBack(tx, accountId, allocations, act.now)
  await touchDebtor(tx, accountId, payment.debtor_id, act.now)
  const reversed = await tx
    .updateTable('payments')
    .set({ status: 'reversed', ...stampOf(tx, act.now.toISOString()) })
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  const event = {
    accountId,
    type: 'payment.reversed',
    subjectId: id,
    render: () => renderPayment(reversed, allocations),
    renderBefore: () => renderPayment(payment, allocations),
  } as const
  await recordEvent(tx, event, act.now)
  return reversed
}

/** The invoices are owed again, and what waits to chase them names the wrong amount. */
async function giveBack(
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
    // Invoices are never taken away, and a payment names each once.
    if (invoice !== undefined) await reopenInvoice(tx, invoice, amount, now)
  }
  await stopMessages(tx, accountId, ids, now, 'a payment was reversed')
}

/** The payment as it stands once its debtor is held. Throws `not_found`. */
async function lockPayment(tx: Transaction, accountId: string, id: string): Promise<PaymentRow> {
  const found = await findPayment(tx, accountId, id)
  if (found !== undefined) await holdDebtor(tx, accountId, found.debtor_id)
  const payment = found && (await findPayment(tx, accountId, id))
  if (payment === undefined) throw new Problem('not_found', `There is no payment ${id}.`)
  return payment
}

export async function findPayment(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<PaymentRow | undefined> {
  return await reader
    .selectFrom('payments')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

function alreadyReversed({ id, updated_at }: PaymentRow): Problem {
  return new Problem(
    'payment_already_reversed',
    `Payment ${id} was reversed at ${updated_at}. Nothing more was done.`,
    { members: { reversed_at: updated_at } },
  )
}
