import { type SqlBool, sql } from 'kysely'
import { addDays } from '../calendar/calendar.ts'
import type { Reader } from '../database/database.ts'
import { prepared, preparedPage } from '../database/prepared.ts'
import { PAYMENT_COLUMNS } from '../database/tables/payments.ts'
import type { AllocationRow, PaymentRow } from '../database/tables.ts'
import { jsonRows } from '../lists/json-rows.ts'
import {
  type Condition,
  columnOrUnindexed,
  equals,
  equalsLiteral,
  ignoreSortIndexIfFiltered,
  type KeysetPage,
  latestOf,
  type PageBounds,
  type PageVariant,
  pageWithBounds,
  type TimeFilters,
  UNINDEXED_ACCOUNT_ID,
  within,
  withinBounds,
  withinTimes,
} from '../lists/keyset.ts'
import { literalFilter, readPage, selectPage } from '../lists/page.ts'

export interface PaymentFilters extends TimeFilters {
  readonly external_id?: string
  readonly debtor_id?: string
  readonly invoice_id?: string
  readonly currency?: string
  readonly received_since?: string
  readonly received_before?: string
  readonly idempotency_key?: string
}

/** A payment and its allocations. One statement reads both, because the payment could change between two statements. */
export interface ListedPayment extends PaymentRow {
  /** A JSON text, see `allocationsOf`. */
  readonly allocations: string
}

export async function listPayments(
  reader: Reader,
  accountId: string,
  { currency, ...filters }: PaymentFilters,
  page: KeysetPage,
): Promise<ListedPayment[]> {
  const { external_id, debtor_id, invoice_id, idempotency_key } = filters
  const selectiveFilters = [external_id, debtor_id, invoice_id, idempotency_key]
  const list = {
    table: 'payments',
    values: { ...filters, ...impliedCreatedSince(filters), accountId },
    selectiveFilters,
    broadFilters: [literalFilter('currency', [currency])],
  } as const
  return await readPage(reader, list, page, (values, variant) =>
    readPayments(reader, values, { ...variant, currency }),
  )
}

/**
 * If the list has the filter `received_since`, returns the filter `created_since`: the time that `received_since`
 * implies or, if it is later, the list's own `created_since`.
 *
 * Without the implied time, a list that begins with the oldest payments would scan all payments that were received
 * before `received_since`. `received_on` is at most tomorrow in the account's time zone, which is at most a day ahead
 * of UTC. A payment is therefore created (in UTC) at most two days before `received_on`.
 */
function impliedCreatedSince({ created_since, received_since }: PaymentFilters): TimeFilters {
  if (received_since === undefined) return {}
  const earliest = `${addDays(received_since, -2)}T00:00:00.000Z`
  return { created_since: latestOf(created_since, earliest) ?? earliest }
}

type Values = Omit<PaymentFilters, 'currency'> & PageBounds & { readonly accountId: string }

type Variant = PageVariant & { readonly currency: string | undefined }

const readPayments = preparedPage((reader: Reader, filters: Values, variant: Variant) => {
  const { accountId } = filters
  const page = pageWithBounds(variant, filters)
  const pageWithSortHint = ignoreSortIndexIfFiltered(page, {
    byDebtor: filters.debtor_id,
    byOtherFilters: [filters.invoice_id],
  })
  const conditions = [
    // The payments of an invoice are found by the primary key (see `UNINDEXED_ACCOUNT_ID`).
    ...equals(filters.invoice_id === undefined ? 'account_id' : UNINDEXED_ACCOUNT_ID, accountId),
    ...withinTimes(filters, page),
    ...equals('external_id', filters.external_id),
    ...equals('debtor_id', filters.debtor_id),
    ...paysInvoice(accountId, filters.invoice_id),
    ...equalsLiteral(
      columnOrUnindexed(page, 'currency', {
        noIndexIfFilteredBy: [filters.debtor_id, filters.invoice_id],
      }),
      variant.currency,
    ),
    ...within('received_on', filters.received_since, filters.received_before),
    ...equals('idempotency_key', filters.idempotency_key),
    ...withinBounds(pageWithSortHint),
  ]
  const allocations = jsonRows(
    reader,
    ['invoice_id', 'amount'],
    sql`select invoice_id, amount from payment_allocations
      where payment_allocations.payment_id = payments.id order by position`,
  )
  return selectPage<ListedPayment>(
    reader,
    'payments',
    PAYMENT_COLUMNS,
    pageWithSortHint,
    conditions,
    { allocations },
  )
})

/** Returns the allocations of a listed payment, in the order in which they were made. */
export function allocationsOf({ allocations }: ListedPayment): ShownAllocation[] {
  const rows: [string, number][] = JSON.parse(allocations)
  return rows.map(([invoice_id, amount]) => ({ invoice_id, amount }))
}

/**
 * Returns the condition for payments that are allocated to the invoice, in part or in full; empty without an invoice.
 */
export function paysInvoice(accountId: string, invoiceId: string | undefined): Condition[] {
  if (invoiceId === undefined) return []
  return [
    sql<SqlBool>`id in (
      select payment_id from payment_allocations
      where account_id = ${accountId} and invoice_id = ${invoiceId}
    )`,
  ]
}

export async function findPaymentByIdempotencyKey(
  reader: Reader,
  accountId: string,
  idempotencyKey: string,
): Promise<PaymentRow | undefined> {
  const [row] = await readByIdempotencyKey(reader, { accountId, idempotencyKey })
  return row
}

const readByIdempotencyKey = prepared(
  (reader: Reader, key: { readonly accountId: string; readonly idempotencyKey: string }) =>
    reader
      .selectFrom('payments')
      .select(PAYMENT_COLUMNS)
      .where('account_id', '=', key.accountId)
      .where('idempotency_key', '=', key.idempotencyKey),
)

export type Allocation = Pick<AllocationRow, 'payment_id' | 'invoice_id' | 'amount'>

/** What the API shows of an allocation. */
export type ShownAllocation = Omit<Allocation, 'payment_id'>

/** Returns the allocations of several payments by payment id, in the order in which they were made. */
export async function readAllocations(
  reader: Reader,
  accountId: string,
  paymentIds: readonly string[],
): Promise<ReadonlyMap<string, readonly Allocation[]>> {
  if (paymentIds.length === 0) return new Map()
  const rows = await reader
    .selectFrom('payment_allocations')
    .select(['payment_id', 'invoice_id', 'amount'])
    .where('account_id', '=', accountId)
    .where('payment_id', 'in', paymentIds)
    .orderBy('payment_id')
    .orderBy('position')
    .execute()
  return Map.groupBy(rows, (row) => row.payment_id)
}
