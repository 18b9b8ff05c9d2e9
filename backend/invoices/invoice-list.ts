/** Lists invoices. Whether an invoice is overdue is derived from its status, due date and the current date. */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { preparedPage } from '../database/prepared.ts'
import { INVOICE_COLUMNS } from '../database/tables/invoices.ts'
import type { InvoiceRow } from '../database/tables.ts'
import {
  type Column,
  type Condition,
  type DueTimeFilters,
  equals,
  equalsLiteral,
  ignoreSortIndex,
  isInLiterals,
  joinPage,
  orderOf,
  type Page,
  type PageBounds,
  type PageForm,
  unindexed,
  unindexedIfNarrowedBy,
  within,
  withinBounds,
  withinSorted,
  withinTimes,
} from '../lists/keyset.ts'
import { readPage } from '../lists/page.ts'

export interface InvoiceFilters extends DueTimeFilters {
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
  page: Page,
): Promise<InvoiceRow[]> {
  const { status, currency, overdue, ...others } = filters
  const narrowFilters = [filters.external_id, filters.debtor_id, filters.number]
  const list = {
    table: 'invoices',
    values: { ...others, accountId, today },
    narrowFilters,
  } as const
  return await readPage(reader, list, page, (values, form) =>
    isAllOverdue(filters, page)
      ? readOverdue(reader, values, form)
      : readInvoices(reader, values, { ...form, status, currency, overdue }),
  )
}

/** Filters whose values are part of the statement's text, see `equalsLiteral`. */
type LiteralFilter = 'status' | 'currency' | 'overdue'

/** The values of the statement's parameters. */
type Values = Omit<InvoiceFilters, LiteralFilter> &
  PageBounds & { readonly accountId: string; readonly today: string }

/** The values that become part of the SQL text. */
type Form = PageForm & { readonly [F in LiteralFilter]: InvoiceFilters[F] | undefined }

const readInvoices = preparedPage((reader: Reader, values: Values, form: Form) => {
  const filters = { ...values, ...form }
  const page = joinPage(form, values)
  const sorting = ignoreSortIndex(page, page.sort === 'created_at' ? undefined : filters.debtor_id)
  const dueDate = page.sort === 'due_date' ? 'due_date' : UNINDEXED_DUE_DATE
  return reader
    .selectFrom('invoices')
    .select(INVOICE_COLUMNS)
    .where((eb) =>
      eb.and([
        eb('account_id', '=', filters.accountId),
        ...withinTimes(filters, page),
        ...equals('external_id', filters.external_id),
        ...equals('debtor_id', filters.debtor_id),
        ...equals('number', filters.number),
        ...isInLiterals(unindexedIfNarrowedBy('status', filters.debtor_id), filters.status),
        ...equalsLiteral(
          unindexedIfNarrowedBy('currency', filters.debtor_id, filters.status),
          filters.currency,
        ),
        ...isOverdue(filters.overdue, dueDate, filters.today),
        ...withinBounds(sorting),
      ]),
    )
    .orderBy(orderOf(sorting))
    .limit(sql.lit(page.fetch))
})

/** An index on the due date would not help: in an old account, nearly all due dates are in the past. */
const UNINDEXED_DUE_DATE = unindexed('due_date')

function isOverdue(overdue: boolean | undefined, dueDate: Column, today: string): Condition[] {
  if (overdue === undefined) return []
  const [isPastDue] = within(dueDate, undefined, today)
  const condition = sql<SqlBool>`(status in ('open', 'partially_paid') and ${isPastDue})`
  return [overdue ? condition : sql<SqlBool>`not ${condition}`]
}

/**
 * Whether the list shows all overdue invoices, or all that were created in a period, in the order of creation.
 * `readOverdue` is faster for this list, `readInvoices` for any other.
 */
function isAllOverdue(filters: InvoiceFilters, { sort }: Page): boolean {
  const others = Object.keys(filters).filter(
    (name) => !['overdue', 'created_since', 'created_before'].includes(name),
  )
  return filters.overdue === true && sort === 'created_at' && others.length === 0
}

/**
 * Scanning open invoices in the order of creation would be slow, because many of them are not overdue. Two indexes
 * are read instead. The first contains, in the order of creation, the invoices that `overdue-events.ts` has marked as
 * announced. The second contains all other invoices by due date; only a few of them are overdue.
 */
const readOverdue = preparedPage((reader: Reader, values: Values, form: PageForm) => {
  const { accountId, today, created_since, created_before } = values
  const page = joinPage(form, values)
  const sorted: Page = { ...page, ignoresSortIndex: true }
  // Sorting by due date last does not change the order, because ids are unique. It makes SQLite, which has no
  // statistics, use the index of announced invoices, because the index of all invoices contains no due date.
  const dueDateLast = sql`due_date ${sql.raw(page.direction)}`
  const selectIds = (announced: 0 | 1, sorting: Page, dueDate: Column) =>
    reader
      .selectFrom('invoices')
      .select('id')
      .where((eb) =>
        eb.and([
          eb('account_id', '=', accountId),
          ...isOverdue(true, dueDate, today),
          sql<SqlBool>`overdue_announced = ${sql.lit(announced)}`,
          ...withinSorted(sorting, created_since, created_before),
          ...withinBounds(sorting),
        ]),
      )
      .orderBy(orderOf(sorting))
      .orderBy(dueDateLast)
      .limit(sql.lit(page.fetch))
  const ids = reader
    .selectFrom(selectIds(1, page, UNINDEXED_DUE_DATE).as('announced'))
    .select('id')
    .unionAll(reader.selectFrom(selectIds(0, sorted, 'due_date').as('unannounced')).select('id'))
  return reader
    .selectFrom('invoices')
    .select(INVOICE_COLUMNS)
    .where('id', 'in', ids)
    .orderBy(orderOf(sorted))
    .limit(sql.lit(page.fetch))
})
