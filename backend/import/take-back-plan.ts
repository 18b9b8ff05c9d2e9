/** Decides which records of an import can be taken back, and why the others are kept. */
import { type SqlBool, sql } from 'kysely'
import type { InvoiceStatus, MessageStatus, PaymentRow, Reader } from '../database/tables.ts'
import { unindexed } from '../lists/keyset.ts'
import type { ImportRecordKind } from './imports.ts'
import { inChunks } from './in-chunks.ts'

export type KeptReason =
  | 'changed' // the record was changed after the import
  | 'closed' // the invoice is void or written off, the payment is reversed, or the customer is archived
  | 'corrected' // the record existed before the import, which only corrected it
  | 'invoice_kept' // the payment pays an invoice that is kept
  | 'other_records' // the customer keeps invoices, payments or messages (see `IS_IRREVERSIBLE`)
  | 'paid' // the invoice has a payment that the import did not record, or that was changed after the import
  | 'reminded' // a reminder about the invoice was approved, or may have reached the customer

export interface KeptRecord {
  readonly id: string
  readonly kind: ImportRecordKind
  /** The number of an invoice, the name of a customer, or the external id of a payment. */
  readonly name: string
  readonly reason: KeptReason
}

/** Records that are taken back together: an invoice (with its payment, if it has one), a payment, or a customer. */
export interface TakeBackStep {
  readonly invoiceId?: string
  readonly paymentId?: string
  readonly customerId?: string
}

/** Counts the records that a step takes back: the step has one member for each. */
export function countRecords(step: TakeBackStep): number {
  return Object.keys(step).length
}

export function countByKind(steps: readonly TakeBackStep[]) {
  const count = (member: keyof TakeBackStep) =>
    steps.filter((step) => step[member] !== undefined).length
  return {
    customers: count('customerId'),
    invoices: count('invoiceId'),
    payments: count('paymentId'),
  }
}

export interface TakeBackPlan {
  /** Customers come last, after their invoices and payments. */
  readonly steps: readonly TakeBackStep[]
  readonly kept: readonly KeptRecord[]
}

export interface ImportedRecord {
  readonly id: string
  readonly kind: ImportRecordKind
}

/** Returns the records of an import that have not been taken back yet. */
export async function readImported(reader: Reader, importId: string): Promise<ImportedRecord[]> {
  const rows = await reader
    .selectFrom('import_records')
    .select(['record_id', 'kind'])
    .where('import_id', '=', importId)
    .where('taken_back_at', 'is', null)
    .orderBy('record_id')
    .execute()
  return rows.map(({ record_id: id, kind }) => ({ id, kind }))
}

export async function planTakeBack(
  reader: Reader,
  accountId: string,
  records: readonly ImportedRecord[],
): Promise<TakeBackPlan> {
  const idsOf = (kind: ImportRecordKind) =>
    records.filter((record) => record.kind === kind).map(({ id }) => id)
  const changed = await findChanged(reader, accountId, records)
  const payments = await readPayments(reader, accountId, idsOf('payment'))
  const invoices = await planInvoices(reader, accountId, idsOf('invoice'), { payments, changed })
  const otherPayments = planPayments(payments, invoices, changed)
  const takenBackIds = new Set(
    [...invoices.steps, ...otherPayments.steps].flatMap((step) => [
      step.invoiceId ?? '',
      step.paymentId ?? '',
    ]),
  )
  const customers = await planCustomers(reader, accountId, idsOf('customer'), {
    takenBackIds,
    changed,
  })
  const corrected = await readCorrected(reader, accountId, idsOf('correction'))
  return {
    steps: [...invoices.steps, ...otherPayments.steps, ...customers.steps],
    kept: [...invoices.kept, ...otherPayments.kept, ...customers.kept, ...corrected],
  }
}

/**
 * Returns the records that have an entry in the audit log. The import writes no entry for a record that it creates, so
 * a record with an entry was changed later.
 */
async function findChanged(
  reader: Reader,
  accountId: string,
  records: readonly ImportedRecord[],
): Promise<ReadonlySet<string>> {
  const ids = records.map(({ id }) => id)
  const rows = await inChunks(ids, (chunk) =>
    reader
      .selectFrom('audit_log')
      .select('subject_id')
      .distinct()
      .where('account_id', '=', accountId)
      .where('subject_id', 'in', chunk)
      .execute(),
  )
  return new Set(rows.flatMap(({ subject_id: id }) => id ?? []))
}

interface ImportedPayment {
  readonly id: string
  readonly name: string
  readonly status: PaymentRow['status']
  /** An invoice that the payment pays; undefined if the whole payment is on account. */
  readonly invoiceId: string | undefined
}

async function readPayments(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<ImportedPayment[]> {
  const rows = await inChunks(ids, (chunk) =>
    reader
      .selectFrom('payments')
      .leftJoin('payment_allocations', 'payment_allocations.payment_id', 'payments.id')
      .select(['payments.id', 'external_id', 'status', 'payment_allocations.invoice_id'])
      .where('payments.account_id', '=', accountId)
      .where('payments.id', 'in', chunk)
      .execute(),
  )
  const payments = rows.map(({ id, external_id, status, invoice_id }) => ({
    ...{ id, status, name: external_id ?? id },
    invoiceId: invoice_id ?? undefined,
  }))
  // A payment has a row for each of its allocations. If it has several, they were changed after the import. The payment
  // is then kept as `changed`, so any of the rows suffices.
  return [...new Map(payments.map((payment) => [payment.id, payment])).values()]
}

/** The plan for the invoices (with their payments), for the other payments, or for the customers. */
type PartialPlan = TakeBackPlan

/** An invoice that is paid can be voided, because its payment is taken back in the same step. */
const VOIDABLE: readonly InvoiceStatus[] = ['draft', 'open', 'partially_paid', 'paid']

async function planInvoices(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
  {
    payments,
    changed,
  }: { readonly payments: readonly ImportedPayment[]; readonly changed: ReadonlySet<string> },
): Promise<PartialPlan> {
  const rows = await inChunks(ids, (chunk) =>
    reader
      .selectFrom('invoices')
      .select(['id', 'number', 'status'])
      .where('account_id', '=', accountId)
      .where('id', 'in', chunk)
      .orderBy('id')
      .execute(),
  )
  const reminded = await findReminded(reader, ids)
  const allocationsOf = Map.groupBy(
    await readAllocations(reader, ids),
    ({ invoice_id }) => invoice_id,
  )
  const imported = new Map(payments.map((payment) => [payment.id, payment]))
  const steps: TakeBackStep[] = []
  const kept: KeptRecord[] = []
  for (const { id, number, status } of rows) {
    const payingIds = (allocationsOf.get(id) ?? []).map(({ payment_id }) => payment_id)
    // A payment that was changed after the import counts as one that the import did not record.
    const hasOtherPayment = payingIds.some(
      (paymentId) => !imported.has(paymentId) || changed.has(paymentId),
    )
    const reason = !VOIDABLE.includes(status)
      ? 'closed'
      : changed.has(id)
        ? 'changed'
        : hasOtherPayment
          ? 'paid'
          : reminded.has(id)
            ? 'reminded'
            : undefined
    // A step needs only one payment: an import records at most one for each invoice, and an invoice with any other
    // payment is kept.
    const [paymentId] = payingIds
    if (reason !== undefined) kept.push({ id, kind: 'invoice', name: number, reason })
    else steps.push({ invoiceId: id, ...(paymentId !== undefined && { paymentId }) })
  }
  return { steps, kept }
}

/** Returns the allocations of payments that were not reversed. */
function readAllocations(reader: Reader, invoiceIds: readonly string[]) {
  return inChunks(invoiceIds, (chunk) =>
    reader
      .selectFrom('payment_allocations')
      .innerJoin('payments', 'payments.id', 'payment_allocations.payment_id')
      .select(['payment_allocations.invoice_id', 'payment_allocations.payment_id'])
      .where('payment_allocations.invoice_id', 'in', chunk)
      .where('payments.status', '=', 'recorded')
      .execute(),
  )
}

/** Statuses of messages that the customer may have received or has sent, or that a person has approved. */
const IRREVERSIBLE: readonly MessageStatus[] = [
  ...(['approved', 'sending', 'sent', 'delivered', 'bounced', 'failed', 'received'] as const),
]

/**
 * Whether a message keeps its customer and its invoices from being taken back. If a hand-over had an unknown outcome,
 * the message may have arrived, even if it is `queued` or `cancelled` now. An approved message is `queued` between two
 * hand-overs. The statement must join `reminders`.
 *
 * With the index of the status, SQLite would read nearly all messages of the account, because most of them have one of
 * these statuses.
 */
const IS_IRREVERSIBLE = sql<SqlBool>`(
  ${unindexed('messages.status')} in (${sql.join(IRREVERSIBLE)})
  or reminders.unknown_outcomes > 0
  or (messages.status = 'queued' and messages.approval_status = 'approved')
)`

async function findReminded(reader: Reader, invoiceIds: readonly string[]) {
  const rows = await inChunks(invoiceIds, (chunk) =>
    reader
      .selectFrom('message_invoices')
      .innerJoin('messages', 'messages.id', 'message_invoices.message_id')
      .leftJoin('reminders', 'reminders.message_id', 'messages.id')
      .select('message_invoices.invoice_id')
      .where('message_invoices.invoice_id', 'in', chunk)
      .where(IS_IRREVERSIBLE)
      .execute(),
  )
  return new Set(rows.map(({ invoice_id }) => invoice_id))
}

/** Plans the payments that are not part of the step of an invoice. */
function planPayments(
  payments: readonly ImportedPayment[],
  invoices: PartialPlan,
  changed: ReadonlySet<string>,
): PartialPlan {
  const takenBackWithInvoice = new Set(invoices.steps.map(({ paymentId }) => paymentId))
  const keptInvoices = new Set(invoices.kept.map(({ id }) => id))
  const steps: TakeBackStep[] = []
  const kept: KeptRecord[] = []
  for (const { id, name, status, invoiceId } of payments) {
    if (takenBackWithInvoice.has(id)) continue
    const reason =
      status === 'reversed'
        ? 'closed'
        : changed.has(id)
          ? 'changed'
          : invoiceId !== undefined && keptInvoices.has(invoiceId)
            ? 'invoice_kept'
            : undefined
    if (reason === undefined) steps.push({ paymentId: id })
    else kept.push({ id, kind: 'payment', name, reason })
  }
  return { steps, kept }
}

async function planCustomers(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
  {
    takenBackIds,
    changed,
  }: { readonly takenBackIds: ReadonlySet<string>; readonly changed: ReadonlySet<string> },
): Promise<PartialPlan> {
  const rows = await inChunks(ids, (chunk) =>
    reader
      .selectFrom('debtors')
      .select(['id', 'name', 'status'])
      .where('account_id', '=', accountId)
      .where('id', 'in', chunk)
      .orderBy('id')
      .execute(),
  )
  const inUse = await findCustomersInUse(reader, accountId, ids, takenBackIds)
  const steps: TakeBackStep[] = []
  const kept: KeptRecord[] = []
  for (const { id, name, status } of rows) {
    const reason =
      status === 'archived'
        ? 'closed'
        : changed.has(id)
          ? 'changed'
          : inUse.has(id)
            ? 'other_records'
            : undefined
    if (reason === undefined) steps.push({ customerId: id })
    else kept.push({ id, kind: 'customer', name, reason })
  }
  return { steps, kept }
}

/**
 * Returns the ids of the customers that keep at least one of these records: a message with `IS_IRREVERSIBLE`, an
 * invoice that is not void, or a payment that is not reversed. Records in `takenBackIds` are not kept.
 */
async function findCustomersInUse(
  reader: Reader,
  accountId: string,
  debtorIds: readonly string[],
  takenBackIds: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const invoices = await inChunks(debtorIds, (chunk) =>
    reader
      .selectFrom('invoices')
      .select(['id', 'debtor_id'])
      .where('account_id', '=', accountId)
      .where('debtor_id', 'in', chunk)
      .where('status', '!=', 'void')
      .execute(),
  )
  const payments = await inChunks(debtorIds, (chunk) =>
    reader
      .selectFrom('payments')
      .select(['id', 'debtor_id'])
      .where('account_id', '=', accountId)
      .where('debtor_id', 'in', chunk)
      .where('status', '=', 'recorded')
      .execute(),
  )
  const messages = await inChunks(debtorIds, (chunk) =>
    reader
      .selectFrom('messages')
      .leftJoin('reminders', 'reminders.message_id', 'messages.id')
      .select(['messages.id', 'messages.debtor_id'])
      .where('messages.account_id', '=', accountId)
      .where('messages.debtor_id', 'in', chunk)
      .where(IS_IRREVERSIBLE)
      .execute(),
  )
  const remaining = [...invoices, ...payments, ...messages].filter(
    ({ id }) => !takenBackIds.has(id),
  )
  return new Set(remaining.map(({ debtor_id }) => debtor_id))
}

async function readCorrected(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<KeptRecord[]> {
  const invoices = await inChunks(ids, (chunk) =>
    reader
      .selectFrom('invoices')
      .select(['id', 'number as name'])
      .where('account_id', '=', accountId)
      .where('id', 'in', chunk)
      .execute(),
  )
  const customers = await inChunks(ids, (chunk) =>
    reader
      .selectFrom('debtors')
      .select(['id', 'name'])
      .where('account_id', '=', accountId)
      .where('id', 'in', chunk)
      .execute(),
  )
  return [...invoices, ...customers].map(({ id, name }) => ({
    ...{ id, name, kind: 'correction', reason: 'corrected' },
  }))
}
