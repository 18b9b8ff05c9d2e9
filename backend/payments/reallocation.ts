/** Changes the allocations of a recorded payment, whose amount never changes. */
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
import { replanInvoices } from '../reminders/planning/planning.ts'
import { stopRemindersCoveredByMoneyOnAccount } from '../reminders/planning/stop-covered-reminders.ts'
import { enteredValuesProblem, fieldErrorsProblem } from '../validation/field-errors.ts'
import { amount as amountRule } from '../validation/fields.ts'
import { check, Rejection } from '../validation/rejections.ts'
import { ALLOCATIONS_MAX, allocate, type Share } from './allocation.ts'
import { lockUnreversedPayment } from './locked-payment.ts'
import { type Allocation, readAllocations } from './payment-list.ts'
import { representPayment } from './representation.ts'
import { type Effects, effectsOf, settleAndStopReminders } from './settle-and-stop-reminders.ts'
import { checkAllocations, type NewAllocation, readTargetInvoices } from './targets.ts'

export interface Reallocated {
  readonly payment: PaymentRow
  readonly allocations: readonly Allocation[]
  readonly effects: Effects
}

/**
 * Allocates the payment's money on account to invoices of its debtor and currency, at most the amount due on each.
 * Throws `not_found`, `payment_already_reversed`, `allocation_exceeds_payment` if the sum exceeds this money,
 * `invoice_not_found`, `invoice_not_payable`, `currency_mismatch`, `payment_exceeds_balance`, and `validation_failed`,
 * e.g. for an amount that is not a positive integer, or for too many invoices.
 */
export async function allocatePayment(
  tx: Transaction,
  accountId: string,
  id: string,
  requested: readonly NewAllocation[],
  actionContext: ActionContext,
): Promise<Reallocated> {
  const payment = await lockUnreversedPayment(tx, accountId, id)
  const shares = await checkShares(tx, payment, requested)
  const before = (await readAllocations(tx, accountId, [id])).get(id) ?? []
  rejectTooManyAllocations(before, shares)
  const debtor = { id: payment.debtor_id, account_id: accountId }
  const sum = shares.reduce((total, { amount }) => total + amount, 0)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'payment.allocated',
    subjectId: id,
    detail: {
      amount: sum,
      currency: payment.currency,
      invoices: shares.map(({ invoice }) => invoice.number),
    },
  })
  await markDebtorUpdated(tx, accountId, debtor.id, actionContext.now)
  const detail = 'money on account was allocated'
  const { invoices, stopped } = await settleAndStopReminders(
    tx,
    debtor,
    shares,
    actionContext.now,
    detail,
  )
  await addAllocations(tx, payment, shares)
  const changed = await changeUnapplied(tx, payment, -sum, before, actionContext.now)
  const cancelledMessageIds = stopped.flatMap((each) => each.cancelledIds)
  // No reminder can be due about these invoices: each is now paid in full, or its reminders are blocked, either by the
  // partial payment or by an earlier reason, such as a dispute.
  const excludedInvoiceIds = invoices.map((invoice) => invoice.id)
  await replanInvoices(tx, debtor, { cancelledMessageIds, excludedInvoiceIds }, actionContext.now)
  return { ...changed, effects: effectsOf(invoices, stopped) }
}

/**
 * Takes back an allocation: its whole amount is on account again. The invoice is chased again, unless it is written off
 * or disputed, or a person has decided that it is not chased (see `invoices/holds.ts`). Throws `not_found`,
 * `payment_already_reversed`, `invoice_not_found` if nothing is allocated to the invoice, and `validation_failed` if
 * the reason is invalid.
 */
export async function takeBackAllocation(
  tx: Transaction,
  accountId: string,
  id: string,
  { invoiceId, reason: enteredReason }: { readonly invoiceId: string; readonly reason: string },
  actionContext: ActionContext,
): Promise<Reallocated> {
  const reason = checkReason(enteredReason)
  const payment = await lockUnreversedPayment(tx, accountId, id)
  const before = (await readAllocations(tx, accountId, [id])).get(id) ?? []
  const allocation = before.find(({ invoice_id }) => invoice_id === invoiceId)
  const [invoice] = allocation === undefined ? [] : await findInvoices(tx, accountId, [invoiceId])
  if (allocation === undefined || invoice === undefined) throw notAllocated()
  const { amount } = allocation
  const { currency } = payment
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'payment.allocation_taken_back',
    subjectId: id,
    detail: { amount, currency, invoice: invoice.number, reason },
  })
  await markDebtorUpdated(tx, accountId, payment.debtor_id, actionContext.now)
  const reopened = await reopenInvoice(tx, invoice, amount, actionContext.now)
  await tx
    .deleteFrom('payment_allocations')
    .where('account_id', '=', accountId)
    .where('payment_id', '=', id)
    .where('invoice_id', '=', invoiceId)
    .execute()
  const changed = await changeUnapplied(tx, payment, amount, before, actionContext.now)
  const detail = 'an allocation was taken back'
  const debtor = { id: payment.debtor_id, account_id: accountId }
  const aboutReopened = await stopMessages(tx, accountId, [invoiceId], actionContext.now, detail)
  // Money on account covers the invoices that are due first, which need not include the reopened invoice.
  const aboutOthers = await stopRemindersCoveredByMoneyOnAccount(
    tx,
    debtor,
    { detail },
    actionContext.now,
  )
  const cancelledMessageIds = [...aboutReopened.cancelledIds, ...aboutOthers.cancelledIds]
  await replanInvoices(tx, debtor, { cancelledMessageIds }, actionContext.now)
  return { ...changed, effects: effectsOf([reopened], [aboutReopened, aboutOthers]) }
}

async function checkShares(
  tx: Transaction,
  payment: PaymentRow,
  allocations: readonly NewAllocation[],
): Promise<readonly Share[]> {
  checkAmounts(allocations)
  const requested = checkAllocations(allocations, payment.unapplied_amount, 'unapplied amount')
  const targets = await readTargetInvoices(tx, payment.account_id, requested)
  // The error for a surplus must not offer `allow_overpayment`, which this operation does not accept.
  return allocate({ ...payment, allowOverpayment: undefined }, targets, payment.debtor_id)
}

function rejectTooManyAllocations(before: readonly Allocation[], shares: readonly Share[]): void {
  const ids = [...before.map((row) => row.invoice_id), ...shares.map(({ invoice }) => invoice.id)]
  if (new Set(ids).size <= ALLOCATIONS_MAX) return
  const detail = `A payment can be allocated to at most ${ALLOCATIONS_MAX} invoices. This payment is already allocated to ${before.length}.`
  throw enteredValuesProblem([{ pointer: '/allocations', code: 'too_long', detail }])
}

function checkAmounts(allocations: readonly NewAllocation[]): void {
  const errors = allocations.flatMap((allocation, index) => {
    const checked = check(amountRule, allocation.amount)
    if (!(checked instanceof Rejection)) return []
    return [
      {
        pointer: `/allocations/${index}/amount`,
        code: checked.code,
        detail: `amount ${checked.detail}`,
      },
    ]
  })
  if (errors.length > 0) throw fieldErrorsProblem(errors)
}

/** If the payment already has an allocation to an invoice, the amount is added to it. */
async function addAllocations(
  tx: Transaction,
  { id, account_id }: PaymentRow,
  shares: readonly Share[],
): Promise<void> {
  const last = await tx
    .selectFrom('payment_allocations')
    .select(({ fn }) => fn.max('position').as('position'))
    .where('payment_id', '=', id)
    .executeTakeFirst()
  const next = Number(last?.position ?? -1) + 1
  await tx
    .insertInto('payment_allocations')
    .values(
      shares.map(({ invoice, amount }, index) => ({
        payment_id: id,
        position: next + index,
        account_id,
        invoice_id: invoice.id,
        amount,
      })),
    )
    .onConflict((conflict) =>
      conflict.columns(['payment_id', 'invoice_id']).doUpdateSet((eb) => ({
        amount: eb('payment_allocations.amount', '+', eb.ref('excluded.amount')),
      })),
    )
    .execute()
}

/**
 * Adds `difference` minor units to the payment's money on account, and records the event that reports the changed
 * allocations. `before` contains the previous allocations.
 */
async function changeUnapplied(
  tx: Transaction,
  payment: PaymentRow,
  difference: number,
  before: readonly Allocation[],
  now: Date,
): Promise<Pick<Reallocated, 'payment' | 'allocations'>> {
  const { id, account_id: accountId } = payment
  const changed = await tx
    .updateTable('payments')
    .set({
      unapplied_amount: payment.unapplied_amount + difference,
      ...nextRevision(tx, now.toISOString()),
    })
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  const allocations = (await readAllocations(tx, accountId, [id])).get(id) ?? []
  const event = {
    accountId,
    type: 'payment.updated',
    subjectId: id,
    represent: () => representPayment(changed, allocations),
    representBefore: () => representPayment(payment, before),
  } as const
  await recordEvent(tx, event, now)
  return { payment: changed, allocations }
}

function notAllocated() {
  const detail = 'invoice_id must be the id of an invoice to which the payment is allocated'
  return fieldErrorsProblem([{ pointer: '/invoice_id', code: 'invoice_not_found', detail }])
}
