import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { preparedPage } from '../database/prepared.ts'
import { INVOICE_COLUMNS } from '../database/tables/invoices.ts'
import type { InvoiceRow } from '../database/tables.ts'
import {
  type AnyTimeFilters,
  type Column,
  type Condition,
  columnOrUnindexed,
  equals,
  equalsLiteral,
  ignoreSortIndexIfFiltered,
  isAnyDefined,
  isInLiterals,
  type KeysetPage,
  literally,
  mayUseIndexOf,
  orderOf,
  type PageBounds,
  type PageVariant,
  pageWithBounds,
  splitPage,
  unindexed,
  within,
  withinBounds,
  withinSorted,
  withinTimes,
} from '../lists/keyset.ts'
import {
  type IndexedFilter,
  literalFilter,
  rangeFilter,
  readPage,
  selectPage,
} from '../lists/page.ts'
import { findPositionBeforeMatchingInvoices } from '../lists/scan-continuation.ts'

export interface InvoiceFilters extends AnyTimeFilters {
  readonly external_id?: string
  readonly debtor_id?: string
  readonly number?: string
  readonly status?: readonly string[]
  readonly currency?: string
  readonly overdue?: boolean
}

export async function listInvoices(
  reader: Reader,
  accountId: string,
  filters: InvoiceFilters,
  today: string,
  page: KeysetPage,
): Promise<InvoiceRow[]> {
  const { status: requested, currency, overdue, ...others } = filters
  // Only unpaid invoices can be overdue.
  const status = overdue
    ? UNPAID.filter((unpaid) => requested?.includes(unpaid) ?? true)
    : requested
  if (status?.length === 0) return []
  const values = { ...others, ...(overdue && dueBefore(filters, today)), accountId, today }
  if (isAllOverdue(filters, page)) {
    const { variant, bounds } = splitPage(page)
    return await readOverdue(reader, { ...values, ...bounds }, variant)
  }
  const list = {
    table: 'invoices',
    values,
    selectiveFilters: [filters.external_id, filters.debtor_id, filters.number],
    broadFilters: [...statusFilters(status, values, page), literalFilter('currency', [currency])],
    findPositionBeforeMatches: findPositionBeforeMatchingInvoices,
  } as const
  return await readPage(reader, list, page, (bounded, variant) =>
    readInvoices(reader, bounded, { ...variant, status, currency, overdue }),
  )
}

function dueBefore({ due_before }: InvoiceFilters, today: string) {
  return { due_before: due_before !== undefined && due_before < today ? due_before : today }
}

const UNPAID = ['open', 'partially_paid']

/** The condition of the index of unpaid invoices. */
const IS_UNPAID = "status in ('open', 'partially_paid')"

/**
 * Returns the indexed filters that represent the filter by status. For a list of unpaid invoices that is filtered or
 * sorted by due date, they are a range of due dates in the index of unpaid invoices and, if only one of the two unpaid
 * statuses was requested, the exact status. For any other list, the only filter is the exact status.
 */
function statusFilters(
  status: readonly string[] | undefined,
  filters: AnyTimeFilters,
  { sort }: PageVariant,
): readonly IndexedFilter[] {
  const exact = literalFilter('status', status ?? [])
  if (!isUnpaid(status) || !usesDueDate(filters, sort)) return [exact]
  const unpaid = rangeFilter('due_date', filters.due_since, filters.due_before, IS_UNPAID)
  return status.length === UNPAID.length ? [unpaid] : [unpaid, exact]
}

function usesDueDate({ due_since, due_before }: AnyTimeFilters, sort: string): boolean {
  return sort === 'due_date' || isAnyDefined(due_since, due_before)
}

function isUnpaid(status: readonly string[] | undefined): status is readonly string[] {
  return status?.every((value) => UNPAID.includes(value)) === true
}

/** Filters whose values are part of the statement's text, because the best index depends on the value. */
type LiteralFilter = 'status' | 'currency' | 'overdue'

/** The values of the statement's parameters. */
type Values = Omit<InvoiceFilters, LiteralFilter> &
  PageBounds & { readonly accountId: string; readonly today: string }

/** The values that become part of the SQL text. */
type Variant = PageVariant & { readonly [F in LiteralFilter]: InvoiceFilters[F] | undefined }

const readInvoices = preparedPage((reader: Reader, values: Values, variant: Variant) => {
  const filters = { ...values, ...variant }
  const page = pageWithBounds(variant, values)
  const pageWithSortHint = ignoreSortIndexIfFiltered(page, { byDebtor: filters.debtor_id })
  const noIndexIfFilteredByDebtor = { noIndexIfFilteredBy: [filters.debtor_id] }
  const isByDueDate =
    usesDueDate(filters, page.sort) && mayUseIndexOf(page, 'due_date', noIndexIfFilteredByDebtor)
  return selectPage<InvoiceRow>(reader, 'invoices', INVOICE_COLUMNS, pageWithSortHint, [
    ...equals('account_id', filters.accountId),
    ...withinTimes(filters, page),
    ...equals('external_id', filters.external_id),
    ...equals('debtor_id', filters.debtor_id),
    ...equals('number', filters.number),
    ...isInLiterals(columnOrUnindexed(page, 'status', noIndexIfFilteredByDebtor), filters.status),
    ...literally(isUnpaid(filters.status) && isByDueDate ? IS_UNPAID : undefined),
    ...equalsLiteral(
      columnOrUnindexed(page, 'currency', {
        noIndexIfFilteredBy: [filters.debtor_id, filters.status],
      }),
      filters.currency,
    ),
    ...matchesOverdue(filters),
    ...withinBounds(pageWithSortHint),
  ])
})

const UNINDEXED_DUE_DATE = unindexed('due_date')

/**
 * Returns the condition of a list of invoices that are not overdue. For a list of overdue invoices, `listInvoices` has
 * restricted the statuses and due dates.
 */
function matchesOverdue({ overdue, today }: Variant & Pick<Values, 'today'>): Condition[] {
  if (overdue !== false) return []
  const isPastDue = within(UNINDEXED_DUE_DATE, undefined, today)
  const isOverdue = sql.join([...isInLiterals('status', UNPAID), ...isPastDue], sql` and `)
  return [sql<SqlBool>`not (${isOverdue})`]
}

/**
 * Whether the list shows all overdue invoices, or all overdue invoices that were created in a period, in the order of
 * creation. `readOverdue` is faster for this list.
 */
function isAllOverdue(filters: InvoiceFilters, { sort }: KeysetPage): boolean {
  const others = Object.keys(filters).filter(
    (name) => !['overdue', 'created_since', 'created_before'].includes(name),
  )
  return filters.overdue === true && sort === 'created_at' && others.length === 0
}

/**
 * Scanning unpaid invoices in the order of creation would be slow, because many of them are not overdue. Two indexes of
 * unpaid invoices are read instead. The first contains, in the order of creation, those whose event
 * `invoice.overdue` has been recorded (`overdue_announced`). The second contains the others by due date; only a few of
 * these are overdue.
 */
const readOverdue = preparedPage((reader: Reader, values: Values, variant: PageVariant) => {
  const { accountId, today, created_since, created_before } = values
  const page = pageWithBounds(variant, values)
  const pageWithoutSortIndex: KeysetPage = { ...page, ignoresSortIndex: true }
  // Ids are unique, so sorting by `due_date` after the id does not change the order. Without `due_date`, SQLite, which
  // has no statistics, would use the index of all invoices, which contains no due date.
  const dueDateLast = sql`due_date ${sql.raw(page.direction)}`
  const selectIds = (announced: 0 | 1, idPage: KeysetPage, dueDate: Column) =>
    reader
      .selectFrom('invoices')
      .select('id')
      .where((eb) =>
        eb.and([
          eb('account_id', '=', accountId),
          ...isInLiterals('status', UNPAID),
          ...within(dueDate, undefined, today),
          sql<SqlBool>`overdue_announced = ${sql.lit(announced)}`,
          ...withinSorted(idPage, created_since, created_before),
          ...withinBounds(idPage),
        ]),
      )
      .orderBy(orderOf(idPage))
      .orderBy(dueDateLast)
      .limit(sql.lit(page.rowsMax))
  const ids = reader
    .selectFrom(selectIds(1, page, UNINDEXED_DUE_DATE).as('announced'))
    .select('id')
    .unionAll(
      reader
        .selectFrom(selectIds(0, pageWithoutSortIndex, 'due_date').as('unannounced'))
        .select('id'),
    )
  return reader
    .selectFrom('invoices')
    .select(INVOICE_COLUMNS)
    .where('id', 'in', ids)
    .orderBy(orderOf(pageWithoutSortIndex))
    .limit(sql.lit(page.rowsMax))
})
