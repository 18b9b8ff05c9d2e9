/** Searches invoices for Settings by status, customer, number, currency, due date and amount. */
import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import type { Reader } from '../database/database.ts'
import type { InvoiceRow } from '../database/tables.ts'
import type { FoundDebtors } from '../debtors/find-debtors.ts'
import {
  type Column,
  type Condition,
  equals,
  ignoreSortIndexIfFiltered,
  type KeysetPage,
  orderOf,
  UNINDEXED_ACCOUNT_ID,
  unindexed,
  within,
  withinBounds,
} from '../lists/keyset.ts'
import { pageOfScan, SCAN_MAX, type ScannedPage, withWholeRows } from '../lists/scan.ts'
import { type AmountRange, isInRange } from '../money/amount-range.ts'

export const INVOICE_VIEWS = [
  'unpaid',
  'overdue',
  'all',
  'draft',
  'open',
  'partially_paid',
  'paid',
  'void',
  'written_off',
] as const

export type InvoiceView = (typeof INVOICE_VIEWS)[number]

/** `-due` sorts by due date in descending order, `-created` by the time of creation, newest first. */
export const INVOICE_SORTS = ['due', '-due', '-created'] as const

export type InvoiceSort = (typeof INVOICE_SORTS)[number]

export interface InvoiceSearch {
  readonly view: InvoiceView
  /** Has no effect on a search by number, whose results are sorted by number. */
  readonly sort: InvoiceSort
  readonly debtorId: string | undefined
  /** A prefix of the number. */
  readonly number: string | undefined
  readonly currency: string | undefined
  readonly dueSince: string | undefined
  /** Exclusive. */
  readonly dueBefore: string | undefined
  readonly amount: AmountRange
}

/**
 * Returns the sort orders that are fast in an account of any size. The views `unpaid` and `overdue` have an index by
 * due date, the other views have one by time of creation. One customer has few enough invoices to sort them in any
 * order.
 */
export function sortsOf({ view, debtorId }: Pick<InvoiceSearch, 'view' | 'debtorId'>) {
  if (debtorId !== undefined) return INVOICE_SORTS
  const isUnpaid = view === 'unpaid' || view === 'overdue'
  return INVOICE_SORTS.filter((sort) => (sort === '-created' ? !isUnpaid : isUnpaid))
}

/**
 * Returns up to `limit` results after the invoice with the id `after`. With a filter by amount, only `SCAN_MAX`
 * invoices are read, so there may be fewer results than `limit` although further invoices match (see `isPartial`).
 * Throws `invalid_cursor` if the account has no invoice with the id `after`.
 */
export async function searchInvoices(
  reader: Reader,
  accountId: string,
  search: InvoiceSearch,
  today: string,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<ScannedPage<InvoiceRow>> {
  const { amount } = search
  // No index serves the filter by amount, so it is applied to the rows that are read.
  const isScan = amount.min !== undefined || amount.max !== undefined
  const scanMax = isScan ? SCAN_MAX : limit + 1
  const page = await pageOf(reader, accountId, search, after, scanMax)
  const scanned = await reader
    .selectFrom('invoices')
    .select(['id', 'amount', 'currency'])
    .where((eb) => eb.and([...conditionsOf(accountId, search, today), ...withinBounds(page)]))
    .orderBy(orderOf(page))
    .limit(scanMax)
    .execute()
  const matches = (row: { readonly amount: number; readonly currency: string }) =>
    isInRange(Number(row.amount), row.currency, amount)
  const scannedPage = pageOfScan(scanned, { limit, scanMax }, isScan ? matches : undefined)
  return withWholeRows(scannedPage, (ids) =>
    reader
      .selectFrom('invoices')
      .selectAll()
      .where('account_id', '=', accountId)
      .where('id', 'in', ids)
      .execute(),
  )
}

function conditionsOf(accountId: string, search: InvoiceSearch, today: string): Condition[] {
  const { view, debtorId, number, currency, dueSince, dueBefore } = search
  const isOfDebtor = debtorId !== undefined
  const isUnpaid = view === 'unpaid' || view === 'overdue'
  // The database must find the few invoices of a debtor by the debtor, not by status or currency. For unpaid
  // invoices, it must use the partial index that begins with the debtor, not an index that begins with the account.
  return [
    ...equals(isOfDebtor && isUnpaid ? UNINDEXED_ACCOUNT_ID : 'account_id', accountId),
    ...conditionsOfView(view, today, isOfDebtor ? unindexed('status') : 'status'),
    ...equals('debtor_id', debtorId),
    ...(number === undefined ? [] : beginsWith('number', number)),
    ...equals(isOfDebtor ? unindexed('currency') : 'currency', currency),
    ...within('due_date', dueSince, dueBefore),
  ]
}

/** Selects the texts with the prefix. U+10FFFF is the last code point of Unicode, so it sorts after all others. */
function beginsWith(column: Column, prefix: string): Condition[] {
  return within(column, prefix, `${prefix}\u{10ffff}`)
}

function conditionsOfView(view: InvoiceView, today: string, status: Column): Condition[] {
  // Only literals, not parameters, match the condition of a partial index.
  const unpaid = sql<SqlBool>`status in ('open', 'partially_paid')`
  if (view === 'unpaid') return [unpaid]
  if (view === 'overdue') return [unpaid, sql<SqlBool>`due_date < ${today}`]
  return view === 'all' ? [] : equals(status, view)
}

const COLUMNS = { due: 'due_date', '-due': 'due_date', '-created': 'created_at' } as const

async function pageOf(
  reader: Reader,
  accountId: string,
  { sort, number, debtorId }: InvoiceSearch,
  after: string | undefined,
  rowsMax: number,
): Promise<KeysetPage> {
  const column = number === undefined ? COLUMNS[sort] : 'number'
  const direction = number !== undefined || sort === 'due' ? 'asc' : 'desc'
  const page = ignoreSortIndexIfFiltered(
    { sort: column, direction, rowsMax, after: undefined },
    { byDebtor: debtorId },
  )
  if (after === undefined) return page
  const row = await reader
    .selectFrom('invoices')
    .select(['id', 'due_date', 'created_at', 'number'])
    .where('account_id', '=', accountId)
    .where('id', '=', after)
    .executeTakeFirst()
  if (row === undefined) {
    throw new Problem('invalid_cursor', 'Unknown cursor; start from the first page.')
  }
  return { ...page, after: { value: row[column], id: row.id } }
}

export interface InvoiceCount {
  readonly currency: string
  readonly invoices: number
  readonly amountDue: number
}

export interface InvoiceCounts {
  readonly counts: readonly InvoiceCount[]
  /** Whether, without the filter by amount, more than `COUNTED_MAX` invoices match. `counts` is then empty. */
  readonly hasMore: boolean
}

/** If more invoices than this would have to be read, they are not counted. */
export const COUNTED_MAX = 1000

/** Counts the results of the search, by currency. */
export async function countInvoices(
  reader: Reader,
  accountId: string,
  search: InvoiceSearch,
  today: string,
): Promise<InvoiceCounts> {
  const rows = await reader
    .selectFrom('invoices')
    .select(['currency', 'amount', 'amount_due'])
    .where((eb) => eb.and(conditionsOf(accountId, search, today)))
    .limit(COUNTED_MAX + 1)
    .execute()
  if (rows.length > COUNTED_MAX) return { counts: [], hasMore: true }
  const matching = rows.filter(({ amount, currency }) =>
    isInRange(Number(amount), currency, search.amount),
  )
  const counts = [...Map.groupBy(matching, ({ currency }) => currency)].map(
    ([currency, ofCurrency]) => ({
      currency,
      invoices: ofCurrency.length,
      amountDue: ofCurrency.reduce((sum, row) => sum + Number(row.amount_due), 0),
    }),
  )
  return { counts: counts.sort((a, b) => (a.currency < b.currency ? -1 : 1)), hasMore: false }
}

/**
 * Returns at most `limit` debtors of invoices whose number begins with `number`. `isTruncated` is whether there are
 * more than `limit` such invoices, so that debtors may be missing.
 */
export async function findDebtorsByInvoiceNumber(
  reader: Reader,
  accountId: string,
  number: string,
  limit: number,
): Promise<FoundDebtors> {
  const rows = await reader
    .selectFrom('invoices')
    .select('debtor_id')
    .where('account_id', '=', accountId)
    .where((eb) => eb.and(beginsWith('number', number)))
    .orderBy('number')
    .limit(limit + 1)
    .execute()
  const ids = new Set(rows.map(({ debtor_id }) => debtor_id))
  return { ids: [...ids].slice(0, limit), isTruncated: rows.length > limit }
}
