/** Creates the records of a file in the same way as the API, and corrects records in the same way as Settings. */
import { getAccount } from '../accounts/accounts.ts'
import type { ActionContext } from '../accounts/audit.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { Transaction } from '../database/tables.ts'
import { debtorBody, newDebtor } from '../debtors/debtor-body.ts'
import { createDebtor } from '../debtors/debtors.ts'
import { editInvoice } from '../invoices/edit-invoice.ts'
import { invoiceBody, newInvoice } from '../invoices/invoice-body.ts'
import { createInvoice } from '../invoices/invoices.ts'
import { newPayment, paymentBody } from '../payments/payment-body.ts'
import { type Recording, recordPayment } from '../payments/payments.ts'
import { changeDebtorDetails } from '../reminders/reminder-content.ts'
import { validateBody } from '../validation/body.ts'
import type { KnownCustomer } from './account-records.ts'
import { debtorBodyOf, invoiceBodyOf, paymentBodyOf } from './bodies.ts'
import { invoiceFinder, type RowWithMissingRecords } from './comparison.ts'
import type { LedgerCustomer, LedgerInvoice } from './ledger.ts'
import type { InvoiceRecord } from './records.ts'
import type { ImportedRecord } from './take-back-plan.ts'

export interface ImportAccount {
  readonly id: string
  readonly timezone: string
  readonly isDemo: boolean
}

export interface ImportContext {
  readonly account: ImportAccount
  /** Whether invoices that are already past due are chased. */
  readonly chaseOverdue: boolean
  readonly actionContext: ActionContext
}

/** Returns the created record. Throws `duplicate_external_id` if the customer exists. */
export async function recordCustomer(
  tx: Transaction,
  { account, actionContext }: ImportContext,
  customer: LedgerCustomer,
): Promise<ImportedRecord[]> {
  const input = newDebtor(validateBody(debtorBody, debtorBodyOf(customer)))
  const owner = { accountId: account.id, isDemo: account.isDemo }
  const { id } = await createDebtor(tx, owner, input, actionContext.now)
  return [{ id, kind: 'customer' }]
}

/**
 * Creates the invoice if it is missing, and records its payment if `canRecordPayment` is true. Returns the created
 * records. Throws `duplicate_external_id`, `duplicate_invoice_number`, `debtor_not_found`, and the problems of a
 * payment.
 */
export async function createMissingRecords(
  tx: Transaction,
  { account, actionContext, chaseOverdue }: ImportContext,
  { invoice, invoiceId, canRecordPayment }: RowWithMissingRecords,
): Promise<ImportedRecord[]> {
  const { id: accountId, timezone } = account
  const { now, actor } = actionContext
  const today = todayIn(timezone, now)
  const id = invoiceId ?? (await createInvoiceFrom(tx, account, invoice, chaseOverdue, now))
  const created = invoiceId === undefined ? [{ id, kind: 'invoice' } as const] : []
  if (!canRecordPayment) return created
  const recording: Recording = {
    accountId,
    timezone,
    source: 'import',
    recordedBy: { type: actor.type, id: actor.id, label: actor.label },
    idempotencyKey: null,
    fingerprint: null,
    now,
  }
  const body = validateBody(paymentBody, paymentBodyOf(invoice, id), today)
  const { payment } = await recordPayment(tx, recording, newPayment(body))
  return [...created, { id: payment.id, kind: 'payment' }]
}

async function createInvoiceFrom(
  tx: Transaction,
  { id: accountId, timezone }: ImportAccount,
  invoice: LedgerInvoice,
  chaseOverdue: boolean,
  now: Date,
): Promise<string> {
  const body = validateBody(
    invoiceBody,
    invoiceBodyOf(invoice, chaseOverdue),
    todayIn(timezone, now),
  )
  const { payment_terms_days: paymentTermsDays } = await getAccount(tx, accountId)
  const owner = { accountId, timezone, paymentTermsDays }
  return (await createInvoice(tx, owner, newInvoice(body), now)).id
}

export type Correction =
  | { readonly kind: 'due_date'; readonly invoiceId: string; readonly dueOn: string }
  | {
      readonly kind: 'contact'
      readonly debtorId: string
      readonly name?: string
      readonly email?: string
    }

export interface FoundCorrection {
  /** E.g. `invoice 0000611365` or `customer C-1`. */
  readonly record: string
  readonly change: string
  readonly correction: Correction
}

/**
 * Finds customers whose name or e-mail address differs from the file, and open or partially paid invoices whose due
 * date differs from the file. Ignores a due date in the file that precedes the invoice's issue date. `customers` (by
 * external id) and `invoices` are in the file. `known` (customers) and `records` (invoices) are in the account.
 */
export function findCorrections(
  customers: ReadonlyMap<string, LedgerCustomer>,
  known: readonly KnownCustomer[],
  invoices: readonly LedgerInvoice[],
  records: readonly InvoiceRecord[],
): FoundCorrection[] {
  const findRecord = invoiceFinder(records)
  const dueDateCorrections = invoices.flatMap((invoice): FoundCorrection[] => {
    const record = findRecord(invoice)
    const { dueOn } = invoice
    // Only an invoice with the external id of the row is changed. `findRecord` also finds invoices by the service's id
    // or by number.
    if (record?.external_id !== invoice.externalId) return []
    const isOpen = record?.status === 'open' || record?.status === 'partially_paid'
    if (!isOpen || dueOn === undefined) return []
    if (dueOn === record.due_date || dueOn < record.issue_date) return []
    return [
      {
        record: `invoice ${invoice.number}`,
        change: `due on ${dueOn} instead of ${record.due_date}`,
        correction: { kind: 'due_date', invoiceId: record.id, dueOn },
      },
    ]
  })
  return [
    ...known.flatMap((row) => contactCorrectionOf(customers.get(row.external_id ?? ''), row)),
    ...dueDateCorrections,
  ]
}

/** A name or an e-mail address that is missing in the file is not changed, nor is a customer who was erased. */
function contactCorrectionOf(
  customer: LedgerCustomer | undefined,
  row: KnownCustomer,
): FoundCorrection[] {
  if (row.erased_at !== null) return []
  const changes = (['name', 'email'] as const).flatMap((field) => {
    const value = customer?.[field]
    return value === undefined || value === row[field] ? [] : [[field, value] as const]
  })
  if (customer === undefined || changes.length === 0) return []
  const change = changes.map(
    ([field, value]) => `${field} ${value} instead of ${row[field] ?? 'none'}`,
  )
  const correction = { kind: 'contact', debtorId: row.id, ...Object.fromEntries(changes) } as const
  return [{ record: `customer ${customer.id}`, change: change.join(', '), correction }]
}

/**
 * Returns the changed record. Throws `not_found`, `invoice_state_conflict`, `debtor_state_conflict`,
 * `validation_failed`.
 */
export async function correctRecord(
  tx: Transaction,
  { account, actionContext }: ImportContext,
  correction: Correction,
): Promise<ImportedRecord[]> {
  if (correction.kind === 'due_date') {
    await editInvoice(
      tx,
      account.id,
      correction.invoiceId,
      { dueDate: correction.dueOn },
      actionContext,
    )
    return [{ id: correction.invoiceId, kind: 'correction' }]
  }
  const { debtorId, kind: _, ...details } = correction
  await changeDebtorDetails(tx, account.id, debtorId, details, actionContext)
  return [{ id: debtorId, kind: 'correction' }]
}
