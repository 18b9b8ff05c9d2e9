/**
 * Payments: money received, recorded once, and all that follows from it in the same transaction: the
 * invoices are settled and messages that were waiting to chase them are cancelled.
 */
import assert from 'node:assert'
import { createId } from '../../shared/contract/id.ts'
import { readApplyCredit } from '../accounts/apply-credit.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import type {
  AllocationRow,
  DebtorRow,
  InvoiceRow,
  InvoiceStatus,
  PaymentRow,
} from '../database/tables.ts'
import { touchDebtor, touchDebtorOf } from '../debtors/debtors.ts'
import { recordEvent } from '../events/events.ts'
import { findInvoices, findOpenInvoices } from '../invoices/invoices.ts'
import { settleInvoice } from '../invoices/settlement.ts'
import { type Stopped, stopMessages } from '../messages/messages.ts'
import { replanUnsettledInvoices } from '../reminders/planning/planning.ts'
import { stopCovered } from '../reminders/planning/stop-covered.ts'
import { refuseTaken } from '../validation/external-id.ts'
import { type Fault, faultsProblem } from '../validation/faults.ts'
import { allocate, applyOldestFirst, type Share, type Target } from './allocation.ts'
import { renderPayment } from './representation.ts'

export type PaymentTarget =
  | { readonly kind: 'invoice'; readonly invoiceId: string }
  | { readonly kind: 'allocations'; readonly allocations: readonly NewAllocation[] }
  /** On account: nothing is allocated. */
  | { readonly kind: 'debtor'; readonly debtorId: string }

export interface NewAllocation {
  readonly invoiceId: string
  readonly amount: number
}

export interface NewPayment {
  readonly target: PaymentTarget
  readonly amount: number
  readonly currency: string
  readonly allowOverpayment: boolean
  /** Today where null. */
  readonly receivedOn: string | null
  readonly method: PaymentRow['method']
  readonly reference: string | null
  readonly externalId: string | null
  readonly metadata: Readonly<Record<string, string>>
}

/** On whose behalf and by which way it is recorded. */
export interface Recording {
  readonly accountId: string
  readonly timezone: string
  readonly source: PaymentRow['source']
  readonly recordedBy: { readonly type: string; readonly id: string | null; readonly label: string }
  readonly idempotencyKey: string | null
  /** Of what was sent with the key. */
  readonly fingerprint: string | null
  readonly now: Date
}

export interface RecordedPayment {
  readonly payment: PaymentRow
  readonly allocations: readonly AllocationRow[]
}

/** What recording did, as it was at that moment; kept with the payment. */
interface Effects {
  readonly invoices: readonly { id: string; status: InvoiceStatus; amount_due: number }[]
  readonly messages_cancelled: number
  readonly messages_in_flight: readonly string[]
}

/**
 * Throws `invoice_not_found`, `debtor_not_found`, what `allocate` throws,
 * `allocation_exceeds_payment` and `duplicate_external_id`.
 */
export async function recordPayment(
  tx: Transaction,
  recording: Recording,
  input: NewPayment,
): Promise<RecordedPayment> {
  const { accountId, now } = recording
  const { debtorId, shares: wanted } = await decide(tx, accountId, input, now)
  const debtor = { id: debtorId, account_id: accountId }
  const shares = await applyCredit(tx, debtor, input, wanted)
  const { settled, stopped } = await settle(tx, debtor, shares, now)
  const allocated = shares.filter(({ amount }) => amount > 0)
  const unapplied = allocated.reduce((rest, { amount }) => rest - amount, input.amount)
  if (unapplied > 0) {
    const onAccount = { currency: input.currency, amount: unapplied }
    stopped.push(await stopCovered(tx, debtor, onAccount, now))
  }
  const cancelledIds = stopped.flatMap((each) => each.cancelledIds)
  const effects: Effects = {
    invoices: settled.map(({ id, status, amount_due }) => ({ id, status, amount_due })),
    messages_cancelled: cancelledIds.length,
    messages_in_flight: [...new Set(stopped.flatMap((each) => each.inFlightIds))],
  }
  const payment: PaymentRow = {
    id: createId('pay'),
    account_id: accountId,
    debtor_id: debtorId,
    amount: input.amount,
    currency: input.currency,
    unapplied_amount: unapplied,
    received_on: input.receivedOn ?? todayIn(recording.timezone, now),
    method: input.method,
    reference: input.reference,
    external_id: input.externalId,
    status: 'recorded',
    idempotency_key: recording.idempotencyKey,
    request_fingerprint: recording.fingerprint,
    source: recording.source,
    recorded_by: JSON.stringify(recording.recordedBy),
    effects: JSON.stringify(effects),
    metadata: JSON.stringify(input.metadata),
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
    revision: 1,
  }
  if (payment.external_id === null) await insertPayment(tx, payment)
  else await refuseTaken(tx, 'payments', payment, () => insertUndoable(tx, payment))
  const allocations = allocated.map(({ invoice, amount }, position) => ({
    payment_id: payment.id,
    position,
    account_id: accountId,
    invoice_id: invoice.id,
    amount,
  }))
  for (const allocation of allocations) await insertAllocation(tx, allocation)
  // Planned after the payment is among the records, because money on account decides too.
  const settledIds = settled.map(({ id }) => id)
  await replanUnsettledInvoices(tx, debtor, cancelledIds, settledIds, now)
  const render = () => renderPayment(payment, allocations)
  await recordEvent(tx, { accountId, type: 'payment.recorded', subjectId: payment.id, render }, now)
  return { payment, allocations }
}

const insertPayment = prepared((tx: Transaction, payment: PaymentRow) =>
  tx.insertInto('payments').values(payment),
)

function insertUndoable(tx: Transaction, payment: PaymentRow) {
  return tx.insertInto('payments').values(payment).execute()
}

const insertAllocation = prepared((tx: Transaction, allocation: AllocationRow) =>
  tx.insertInto('payment_allocations').values(allocation),
)

/** Whose payment it is and what goes to which invoice, decided under the debtor's lock. */
async function decide(
  tx: Transaction,
  accountId: string,
  input: NewPayment,
  now: Date,
): Promise<{ debtorId: string; shares: readonly Share[] }> {
  const { target } = input
  if (target.kind === 'debtor') {
    const { debtorId } = target
    if (await touchDebtor(tx, accountId, debtorId, now)) return { debtorId, shares: [] }
    const detail = 'debtor_id must be the id of a debtor'
    throw faultsProblem([{ pointer: '/debtor_id', code: 'debtor_not_found', detail }])
  }
  const wanted = wantedOf(input.amount, target)
  const [first] = wanted
  assert(first !== undefined, 'a payment on invoices has at least one target')
  const debtorId = await touchDebtorOf(tx, accountId, first.invoiceId, now)
  const targets = await readTargets(tx, accountId, wanted)
  assert(debtorId !== undefined, 'an invoice has a debtor')
  return { debtorId, shares: allocate(input, targets) }
}

/** With what is left of the payment on open invoices, where the account has chosen so. */
async function applyCredit(
  tx: Transaction,
  { id, account_id: accountId }: Pick<DebtorRow, 'id' | 'account_id'>,
  { amount, currency }: NewPayment,
  shares: readonly Share[],
): Promise<readonly Share[]> {
  if (shares.reduce((rest, share) => rest - share.amount, amount) === 0) return shares
  if ((await readApplyCredit(tx, accountId)) === 'manual') return shares
  const open = await findOpenInvoices(tx, accountId, id, currency)
  return applyOldestFirst({ amount }, shares, open)
}

type Wanted = Pick<Target, 'pointer' | 'amount'> & { readonly invoiceId: string }

/** Throws `allocation_exceeds_payment`, and `validation_failed` where an invoice occurs twice. */
function wantedOf(
  amount: number,
  target: Exclude<PaymentTarget, { readonly kind: 'debtor' }>,
): Wanted[] {
  if (target.kind === 'invoice') {
    return [{ pointer: '', invoiceId: target.invoiceId, amount: undefined }]
  }
  const wanted = target.allocations.map((allocation, index) => ({
    ...allocation,
    pointer: `/allocations/${index}`,
  }))
  const ids = wanted.map(({ invoiceId }) => invoiceId)
  const faults = wanted
    .filter(({ invoiceId }, index) => ids.indexOf(invoiceId) !== index)
    .map(({ pointer }) => fault(pointer, 'invalid_format', 'must not occur twice in allocations'))
  const sum = wanted.reduce((total, allocation) => total + allocation.amount, 0)
  if (sum > amount) {
    const detail = `allocations add up to ${sum}, more than the amount of ${amount}`
    faults.push({ pointer: '/allocations', code: 'allocation_exceeds_payment', detail })
  }
  if (faults.length > 0) throw faultsProblem(faults)
  return wanted
}

/** In the order wanted. Throws `invoice_not_found` with every one that the account does not have. */
async function readTargets(
  tx: Transaction,
  accountId: string,
  wanted: readonly Wanted[],
): Promise<Target[]> {
  const ids = wanted.map(({ invoiceId }) => invoiceId)
  const rows = await findInvoices(tx, accountId, ids)
  const byId = new Map(rows.map((row) => [row.id, row]))
  const targets = wanted.flatMap(({ pointer, invoiceId, amount }) => {
    const invoice = byId.get(invoiceId)
    return invoice === undefined ? [] : [{ pointer, invoice, amount }]
  })
  if (targets.length === wanted.length) return targets
  throw faultsProblem(
    wanted
      .filter(({ invoiceId }) => !byId.has(invoiceId))
      .map(({ pointer }) => fault(pointer, 'invoice_not_found', 'must be the id of an invoice')),
  )
}

function fault(pointer: string, code: string, detail: string): Fault {
  return { pointer: `${pointer}/invoice_id`, code, detail: `invoice_id ${detail}` }
}

/** Settles the invoices and stops the messages that wait to chase them. */
async function settle(
  tx: Transaction,
  debtor: Pick<DebtorRow, 'id' | 'account_id'>,
  shares: readonly Share[],
  now: Date,
): Promise<{ settled: readonly InvoiceRow[]; stopped: Stopped[] }> {
  if (shares.length === 0) return { settled: [], stopped: [] }
  const settled: InvoiceRow[] = []
  for (const { invoice, amount } of shares) {
    // A surplus on an invoice that was paid already changes nothing about it.
    settled.push(amount === 0 ? invoice : await settleInvoice(tx, invoice, amount, now))
  }
  const ids = settled.map(({ id }) => id)
  const stopped = await stopMessages(tx, debtor.account_id, ids, now, 'a payment was recorded')
  return { settled, stopped: [stopped] }
}
