/**
 * Records payments. The same transaction reduces the amounts due of the invoices and cancels the waiting messages about
 * them.
 */
import assert from 'node:assert'
import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { type ApplyCredit, readApplyCredit } from '../accounts/apply-credit.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { Transaction } from '../database/database.ts'
import { isPostgres } from '../database/engine.ts'
import { prepared } from '../database/prepared.ts'
import type { AllocationRow, DebtorRow, PaymentRow } from '../database/tables.ts'
import { together } from '../database/together.ts'
import { debtorExists, markDebtorOfInvoiceUpdated, markDebtorUpdated } from '../debtors/debtors.ts'
import { prefetchEndpoints, recordEvent } from '../events/events.ts'
import { listOpenInvoices } from '../invoices/invoices.ts'
import { findUnsentMessages, type UnsentMessage } from '../messages/cancel-messages.ts'
import { replanInvoices } from '../reminders/planning/planning.ts'
import { stopRemindersCoveredByMoneyOnAccount } from '../reminders/planning/stop-covered-reminders.ts'
import { insertWithUniqueExternalId, rejectTakenExternalId } from '../validation/external-id.ts'
import { fieldErrorsProblem } from '../validation/field-errors.ts'
import { ALLOCATIONS_MAX, allocate, applyOldestFirst, type Share } from './allocation.ts'
import { representPayment } from './representation.ts'
import { effectsOf, settleAndStopReminders } from './settle-and-stop-reminders.ts'
import {
  checkAllocations,
  type NewAllocation,
  type RequestedAllocation,
  readTargetInvoices,
} from './targets.ts'

export type PaymentTarget =
  | { readonly kind: 'invoice'; readonly invoiceId: string }
  | { readonly kind: 'allocations'; readonly allocations: readonly NewAllocation[] }
  /** The request names no invoice. The account's setting `apply_credit` decides whether the payment is allocated. */
  | { readonly kind: 'debtor'; readonly debtorId: string }
  /**
   * The payment is allocated to the debtor's open invoices, the oldest due date first, but to at most `ALLOCATIONS_MAX`
   * of them. The rest of the payment stays on account.
   */
  | { readonly kind: 'oldest_first'; readonly debtorId: string }

export interface NewPayment {
  readonly target: PaymentTarget
  readonly amount: number
  readonly currency: string
  readonly allowOverpayment: boolean | undefined
  /**
   * If true, the part that the target does not allocate stays on account. Otherwise, the account's setting
   * `apply_credit` decides.
   */
  readonly keepsRestOnAccount: boolean
  /** If it is null, the current date applies. */
  readonly receivedOn: string | null
  readonly method: PaymentRow['method']
  readonly reference: string | null
  readonly externalId: string | null
  readonly metadata: Readonly<Record<string, string>>
}

export interface Recording {
  readonly accountId: string
  readonly timezone: string
  readonly source: PaymentRow['source']
  readonly recordedBy: { readonly type: string; readonly id: string | null; readonly label: string }
  readonly idempotencyKey: string | null
  /** The fingerprint of the request with this idempotency key; null without a key. */
  readonly fingerprint: string | null
  readonly now: Date
}

export interface RecordedPayment {
  readonly payment: PaymentRow
  readonly allocations: readonly AllocationRow[]
}

/**
 * Records a payment with all its effects. Throws `invoice_not_found`, `debtor_not_found`, `duplicate_external_id`, and
 * the problems of `checkAllocations` and `allocate`.
 */
export async function recordPayment(
  tx: Transaction,
  recording: Recording,
  input: NewPayment,
): Promise<RecordedPayment> {
  const { accountId, now } = recording
  // The data of later steps is read in the same round trip: the endpoints for `recordEvent` and, for the target
  // `debtor`, the setting `apply_credit` for `allocateRest`. With other targets, a payment seldom has a rest.
  const [{ debtorId, shares: requested, unsent }, applyCredit] = await together([
    readRequestedShares(tx, accountId, input, now).catch((error: unknown) =>
      rejectRepetition(tx, accountId, input, error),
    ),
    input.target.kind === 'debtor' && !input.keepsRestOnAccount
      ? readApplyCredit(tx, accountId)
      : undefined,
    prefetchEndpoints(tx, accountId),
  ])
  const debtor = { id: debtorId, account_id: accountId }
  const shares = await allocateRest(tx, debtor, input, requested, applyCredit)
  const { invoices, stopped } = await settleAndStopReminders(
    tx,
    debtor,
    shares,
    now,
    'a payment was recorded',
    // `allocateRest` may have added other invoices, whose messages have not been read.
    shares === requested ? unsent : undefined,
  )
  const allocated = shares.filter(({ amount }) => amount > 0)
  const unapplied = allocated.reduce((rest, { amount }) => rest - amount, input.amount)
  if (unapplied > 0) {
    const incoming = { currency: input.currency, amount: unapplied }
    const detail = 'money was received on account'
    stopped.push(await stopRemindersCoveredByMoneyOnAccount(tx, debtor, { incoming, detail }, now))
  }
  const cancelledMessageIds = stopped.flatMap((each) => each.cancelledIds)
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
    effects: JSON.stringify(effectsOf(invoices, stopped)),
    metadata: JSON.stringify(input.metadata),
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
    revision: 1,
  }
  await insertPayment(tx, payment)
  const allocations = allocated.map(({ invoice, amount }, position) => ({
    payment_id: payment.id,
    position,
    account_id: accountId,
    invoice_id: invoice.id,
    amount,
  }))
  for (const allocation of allocations) await insertAllocation(tx, allocation)
  // No reminder can be due about these invoices: each is now paid in full, or its reminders are blocked, either by the
  // partial payment or by an earlier reason, such as a dispute.
  const excludedInvoiceIds = invoices.map(({ id }) => id)
  // Planning must follow the insertion of the payment, because money on account affects the plan.
  await replanInvoices(tx, debtor, { cancelledMessageIds, excludedInvoiceIds }, now)
  const represent = () => representPayment(payment, allocations)
  await recordEvent(
    tx,
    { accountId, type: 'payment.recorded', subjectId: payment.id, represent },
    now,
  )
  return { payment, allocations }
}

/** Throws `duplicate_external_id`. */
async function insertPayment(tx: Transaction, payment: PaymentRow): Promise<void> {
  if (payment.external_id !== null && isPostgres(tx)) {
    // Another transaction may insert a payment with this external id at the same time. A statement that is not prepared
    // has a savepoint, so a violation does not abort the transaction (see `TransactionConnection`).
    await insertWithUniqueExternalId(tx, 'payments', payment, () =>
      tx.insertInto('payments').values(payment).execute(),
    )
    return
  }
  // On SQLite, a transaction that inserts this external id at the same time is repeated after this one. Without an
  // external id, no conflict is possible. The insert can therefore be sent with the payment's other writes.
  await rejectTakenExternalId(tx, 'payments', payment)
  await insertRow(tx, payment)
}

const insertRow = prepared((tx: Transaction, payment: PaymentRow) =>
  tx.insertInto('payments').values(payment),
)

const insertAllocation = prepared((tx: Transaction, allocation: AllocationRow) =>
  tx.insertInto('payment_allocations').values(allocation),
)

interface RequestedShares {
  readonly debtorId: string
  readonly shares: readonly Share[]
  /** The unsent messages about the invoices of the shares; absent if they have not been read. */
  readonly unsent?: readonly UnsentMessage[]
}

/**
 * Locks the debtor, and determines the shares of the invoices that the request names or, for `oldest_first`, of the
 * oldest open invoices. For `debtor`, there are no shares yet. Statements that are sent together run in their order:
 * `markDebtorUpdated` or `markDebtorOfInvoiceUpdated` locks the debtor before anything is read that another transaction
 * may change.
 */
async function readRequestedShares(
  tx: Transaction,
  accountId: string,
  input: NewPayment,
  now: Date,
): Promise<RequestedShares> {
  const { target } = input
  if (target.kind === 'debtor' || target.kind === 'oldest_first') {
    const { debtorId } = target
    const [exists] = await together([
      debtorExists(tx, accountId, debtorId),
      markDebtorUpdated(tx, accountId, debtorId, now),
    ])
    if (exists) {
      const open =
        target.kind === 'oldest_first'
          ? await listOpenInvoices(tx, accountId, debtorId, input.currency, {
              max: ALLOCATIONS_MAX,
            })
          : []
      return { debtorId, shares: applyOldestFirst(input, [], open) }
    }
    const detail = 'debtor_id must be the id of a debtor'
    throw fieldErrorsProblem([{ pointer: '/debtor_id', code: 'debtor_not_found', detail }])
  }
  const requested = requestedAllocationsOf(input.amount, target)
  const [first] = requested
  assert(first !== undefined, 'a payment on invoices has at least one target')
  const invoiceIds = requested.map(({ invoiceId }) => invoiceId)
  const [, targets, unsent] = await together([
    markDebtorOfInvoiceUpdated(tx, accountId, first.invoiceId, now),
    readTargetInvoices(tx, accountId, requested),
    findUnsentMessages(tx, { accountId, invoiceIds }),
  ])
  const [firstTarget] = targets
  assert(firstTarget !== undefined, 'targets that are not found are rejected')
  return { debtorId: firstTarget.invoice.debtor_id, shares: allocate(input, targets), unsent }
}

/**
 * Throws `duplicate_external_id` if a payment already has the external id, and otherwise `error`. Without this, a
 * repeated payment in full would be rejected because nothing is due anymore, and the client would not learn that the
 * payment was recorded.
 */
async function rejectRepetition(
  tx: Transaction,
  accountId: string,
  { externalId }: NewPayment,
  error: unknown,
): Promise<never> {
  if (error instanceof Problem && error.status < 500) {
    const payment = { account_id: accountId, external_id: externalId }
    await rejectTakenExternalId(tx, 'payments', payment, error)
  }
  throw error
}

async function allocateRest(
  tx: Transaction,
  { id, account_id: accountId }: Pick<DebtorRow, 'id' | 'account_id'>,
  { amount, currency, keepsRestOnAccount }: NewPayment,
  shares: readonly Share[],
  applyCredit: ApplyCredit | undefined,
): Promise<readonly Share[]> {
  if (keepsRestOnAccount) return shares
  if (shares.reduce((rest, share) => rest - share.amount, amount) === 0) return shares
  if ((applyCredit ?? (await readApplyCredit(tx, accountId))) === 'manual') return shares
  const open = await listOpenInvoices(tx, accountId, id, currency, {
    max: ALLOCATIONS_MAX,
  })
  return applyOldestFirst({ amount }, shares, open)
}

function requestedAllocationsOf(
  amount: number,
  target: Extract<PaymentTarget, { readonly kind: 'invoice' | 'allocations' }>,
): RequestedAllocation[] {
  if (target.kind === 'allocations') return checkAllocations(target.allocations, amount)
  return [{ pointer: '', invoiceId: target.invoiceId, amount: undefined }]
}
