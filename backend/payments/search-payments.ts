/**
 * Searches payments, for the pages of Settings. The results of a search by reference are sorted by reference, those of
 * any other search by creation, newest first.
 */
import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import type { Reader } from '../database/database.ts'
import type { PaymentRow } from '../database/tables.ts'
import {
  type Condition,
  equals,
  ignoreSortIndexIfFiltered,
  type KeysetPage,
  orderOf,
  within,
  withinBounds,
} from '../lists/keyset.ts'
import { pageOfScan, SCAN_MAX, type ScannedPage, withWholeRows } from '../lists/scan.ts'
import { type AmountRange, isInRange } from '../money/amount-range.ts'
import { paysInvoice } from './payment-list.ts'

export interface PaymentSearch {
  readonly debtorId: string | undefined
  /** The invoice to which a part of the payment is allocated. */
  readonly invoiceId: string | undefined
  readonly status: PaymentRow['status'] | undefined
  /** A prefix of the reference. */
  readonly reference: string | undefined
  readonly receivedSince: string | undefined
  /** Inclusive. */
  readonly receivedUntil: string | undefined
  readonly amount: AmountRange
}

/**
 * Returns the results after the payment with the id `after`. Throws `invalid_cursor` if the account has no such
 * payment. With a filter that no index serves, a page can have few results, or none, although more follow (see
 * `scan.ts`).
 */
export async function searchPayments(
  reader: Reader,
  accountId: string,
  search: PaymentSearch,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<ScannedPage<PaymentRow>> {
  const { status, receivedSince, receivedUntil, amount } = search
  const unindexedFilters = [status, receivedSince, receivedUntil, amount.min, amount.max]
  const isScan = unindexedFilters.some((value) => value !== undefined)
  const scanMax = isScan ? SCAN_MAX : limit + 1
  const page = await pageOf(reader, accountId, search, after, scanMax)
  const scanned = await reader
    .selectFrom('payments')
    .select(['id', 'amount', 'currency', 'status', 'received_on'])
    .where((eb) => eb.and([...indexedConditionsOf(accountId, search), ...withinBounds(page)]))
    .orderBy(orderOf(page))
    .limit(scanMax)
    .execute()
  const scannedPage = pageOfScan(
    scanned,
    { limit, scanMax },
    isScan ? (row) => passesUnindexedFilters(row, search) : undefined,
  )
  return withWholeRows(scannedPage, (ids) =>
    reader
      .selectFrom('payments')
      .selectAll()
      .where('account_id', '=', accountId)
      .where('id', 'in', ids)
      .execute(),
  )
}

type ScannedPayment = Pick<PaymentRow, 'amount' | 'currency' | 'status' | 'received_on'>

function passesUnindexedFilters(row: ScannedPayment, search: PaymentSearch): boolean {
  const { status, receivedSince, receivedUntil, amount } = search
  return (
    isInRange(Number(row.amount), row.currency, amount) &&
    (status === undefined || row.status === status) &&
    (receivedSince === undefined || row.received_on >= receivedSince) &&
    (receivedUntil === undefined || row.received_on <= receivedUntil)
  )
}

/** Payments are counted only if at most this many must be read. */
export const COUNTED_MAX = 1000

export interface PaymentCounts {
  readonly counts: readonly {
    readonly currency: string
    readonly payments: number
    /** In minor units. Reversed payments are included only if the search is for reversed payments. */
    readonly amount: number
  }[]
  /** Whether more than `COUNTED_MAX` payments would have to be read. If so, `counts` is empty. */
  readonly hasMore: boolean
}

/** Returns the number and the sum of the payments that match the search, for each currency. */
export async function countPayments(
  reader: Reader,
  accountId: string,
  search: PaymentSearch,
): Promise<PaymentCounts> {
  const rows = await reader
    .selectFrom('payments')
    .select(['amount', 'currency', 'status', 'received_on'])
    .where((eb) => eb.and(indexedConditionsOf(accountId, search)))
    .limit(COUNTED_MAX + 1)
    .execute()
  if (rows.length > COUNTED_MAX) return { counts: [], hasMore: true }
  const matching = rows.filter((row) => passesUnindexedFilters(row, search))
  const byCurrency = Map.groupBy(matching, ({ currency }) => currency)
  const counts = [...byCurrency].map(([currency, payments]) => ({
    currency,
    payments: payments.length,
    amount: payments
      .filter(({ status }) => status === 'recorded' || search.status === 'reversed')
      .reduce((sum, row) => sum + Number(row.amount), 0),
  }))
  return { counts: counts.sort((a, b) => (a.currency < b.currency ? -1 : 1)), hasMore: false }
}

function indexedConditionsOf(
  accountId: string,
  { debtorId, invoiceId, reference }: PaymentSearch,
): Condition[] {
  return [
    ...equals('account_id', accountId),
    ...equals('debtor_id', debtorId),
    ...paysInvoice(accountId, invoiceId),
    // This condition lets the database use the index of references, which omits payments without a reference.
    ...(reference === undefined ? [] : [sql<SqlBool>`reference is not null`]),
    // All references with this prefix sort before the prefix followed by the highest character.
    ...within('reference', reference, reference && `${reference}\u{10ffff}`),
  ]
}

async function pageOf(
  reader: Reader,
  accountId: string,
  { invoiceId, reference }: PaymentSearch,
  after: string | undefined,
  rowsMax: number,
): Promise<KeysetPage> {
  const column = reference === undefined ? 'created_at' : 'reference'
  const direction = reference === undefined ? 'desc' : 'asc'
  const firstPage = ignoreSortIndexIfFiltered(
    { sort: column, direction, rowsMax, after: undefined },
    { byOtherFilters: [invoiceId] },
  )
  if (after === undefined) return firstPage
  const row = await reader
    .selectFrom('payments')
    .select(['id', 'created_at', 'reference'])
    .where('account_id', '=', accountId)
    .where('id', '=', after)
    .executeTakeFirst()
  if (row === undefined) {
    throw new Problem('invalid_cursor', 'Unknown cursor; start from the first page.')
  }
  return { ...firstPage, after: { value: row[column] ?? '', id: row.id } }
}
