/**
 * Keyset pagination: the next page starts after the sort value and id of the last row. The cost of a page
 * therefore does not depend on its position, and new rows do not shift it.
 */
import { type Expression, type SqlBool, sql } from 'kysely'

export interface Position {
  /** The value of the row in the sort column. */
  readonly value: string
  readonly id: string
}

/** Which rows of a list to read. */
export interface KeysetPage extends PageVariant {
  readonly after: Position | undefined
  /** Rows after this position are not read, see `readPage`. */
  readonly end?: Position
}

/** The properties of a page that become part of the SQL text: each combination is a statement of its own. */
export interface PageVariant {
  readonly sort: string
  readonly direction: 'asc' | 'desc'
  /** The maximum number of rows to read. Most lists read one row more than they show, to detect a next page. */
  readonly rowsMax: number
  /** See `ignoreSortIndexIfFiltered`. */
  readonly ignoresSortIndex?: true
  /** The only columns whose indexes the database may use; by default, it chooses. See `columnOrUnindexed`. */
  readonly indexableColumns?: readonly string[]
}

/** The positions `after` and `end` of a page as values for `preparedPage`; a missing position has no members. */
export interface PageBounds {
  readonly startValue?: string
  readonly startId?: string
  readonly endValue?: string
  readonly endId?: string
}

export function splitPage({ after, end, ...variant }: KeysetPage): {
  variant: PageVariant
  bounds: PageBounds
} {
  const start = after && { startValue: after.value, startId: after.id }
  return { variant, bounds: { ...start, ...(end && { endValue: end.value, endId: end.id }) } }
}

export function pageWithBounds(variant: PageVariant, bounds: PageBounds): KeysetPage {
  const end = positionOf(bounds.endValue, bounds.endId)
  return { ...variant, after: positionOf(bounds.startValue, bounds.startId), ...(end && { end }) }
}

function positionOf(value: string | undefined, id: string | undefined): Position | undefined {
  return value === undefined || id === undefined ? undefined : { value, id }
}

/**
 * If one of these filters is defined, makes the database find rows by the filter and then sort them. A database without
 * statistics would otherwise scan the whole account in the list's order. For the order of creation, `byDebtor` has no
 * effect, because an index contains the rows of a debtor in this order.
 */
export function ignoreSortIndexIfFiltered(
  page: KeysetPage,
  { byDebtor, byOtherFilters = [] }: SelectiveFilters,
): KeysetPage {
  const mustSortRowsOfDebtor = byDebtor !== undefined && page.sort !== 'created_at'
  return mustSortRowsOfDebtor || isAnyDefined(...byOtherFilters)
    ? { ...page, ignoresSortIndex: true }
    : page
}

/** The values of the list's filters that match few rows. */
export interface SelectiveFilters {
  readonly byDebtor?: string | undefined
  readonly byOtherFilters?: readonly (string | undefined)[]
}

export function isAnyDefined(...filters: readonly unknown[]): boolean {
  return filters.some((filter) => filter !== undefined)
}

export type Condition = Expression<SqlBool>

/**
 * Returns the conditions for rows after `page.after` and up to `page.end`. The conditions do not qualify the sort
 * column and the id with a table name, so callers must filter by subquery, not by join.
 */
export function withinBounds(page: KeysetPage): Condition[] {
  const { after, end } = page
  const key = sql`(${sortOf(page)}, id)`
  const [later, notLater] = page.direction === 'asc' ? ['>', '<='] : ['<', '>=']
  const conditions: Condition[] = []
  if (after) conditions.push(sql`${key} ${sql.raw(later)} (${after.value}, ${after.id})`)
  if (end) conditions.push(sql`${key} ${sql.raw(notLater)} (${end.value}, ${end.id})`)
  return conditions
}

/** The expressions of `order by`. */
export function orderOf(page: KeysetPage) {
  const order = sql.raw(page.direction)
  return sql`${sortOf(page)} ${order}, id ${order}`
}

function sortOf({ sort, ignoresSortIndex, indexableColumns = [sort] }: KeysetPage) {
  return ignoresSortIndex || !indexableColumns.includes(sort) ? unindexed(sort) : sql.ref(sort)
}

export type Column = string | Expression<unknown>

/**
 * Returns the text column as an expression, so that the database does not use the column's index. Without statistics,
 * the database assumes that every filter is selective: for example, it would read all rows with a status to find
 * the few rows of one debtor.
 */
export function unindexed(column: string): Expression<unknown> {
  return sql`(${sql.ref(column)} || '')`
}

/**
 * For a statement that finds a few rows by other columns, e.g. the open invoices of a debtor by their partial index.
 * With the plain column, SQLite would use an index that begins with the account, and read all rows of the account.
 */
export const UNINDEXED_ACCOUNT_ID: Expression<unknown> = unindexed('account_id')

interface MoreSelectiveFilters {
  /** The values of the list's filters that are more selective than a filter by the column. */
  readonly noIndexIfFilteredBy?: readonly unknown[]
}

/** Returns the column for the condition of a filter, or `unindexed(column)` if its index must not be used. */
export function columnOrUnindexed(
  page: PageVariant,
  column: string,
  filters?: MoreSelectiveFilters,
): Column {
  return mayUseIndexOf(page, column, filters) ? column : unindexed(column)
}

/**
 * Whether the database may use the index of the column. If the page has `indexableColumns`, the column must be one of
 * them. Otherwise, no value of `noIndexIfFilteredBy` may be defined.
 */
export function mayUseIndexOf(
  { indexableColumns }: PageVariant,
  column: string,
  { noIndexIfFilteredBy = [] }: MoreSelectiveFilters = {},
): boolean {
  return indexableColumns
    ? indexableColumns.includes(column)
    : !isAnyDefined(...noIndexIfFilteredBy)
}

function expressionOf(column: Column): Expression<unknown> {
  return typeof column === 'string' ? sql.ref(column) : column
}

type Value = string | number | undefined

/**
 * For columns with few values, e.g. a status: the value is part of the statement's text, not a parameter. PostgreSQL
 * keeps one plan for each text, and the best index depends on how many rows have the value.
 */
export function equalsLiteral(column: Column, value: string | undefined): Condition[] {
  return value === undefined ? [] : [sql`${expressionOf(column)} = ${sql.lit(value)}`]
}

/** Like `equalsLiteral`, for several values. */
export function isInLiterals(column: Column, values: readonly string[] | undefined): Condition[] {
  const list = values?.map((value) => sql.lit(value))
  return list === undefined ? [] : [sql`${expressionOf(column)} in (${sql.join(list)})`]
}

/** Returns the condition with this text, such as the condition of a partial index. */
export function literally(condition: string | undefined): Condition[] {
  return condition === undefined ? [] : [sql.raw(condition)]
}

/** Returns no condition if the value is undefined. */
export function equals(column: Column, value: Value): Condition[] {
  return value === undefined ? [] : [sql`${expressionOf(column)} = ${value}`]
}

/** The times by which every list of the API can be filtered. */
export interface TimeFilters {
  readonly created_since?: string
  readonly created_before?: string
  readonly updated_since?: string
  readonly updated_before?: string
}

/** All times by which some list can be filtered. */
export interface AnyTimeFilters extends TimeFilters {
  readonly due_since?: string
  readonly due_before?: string
  readonly sent_since?: string
  readonly sent_before?: string
}

/** A column with its inclusive lower and exclusive upper limit. */
export type TimeRange = readonly [string, string | undefined, string | undefined]

/**
 * Adds the limits of the sort column that other filters imply, so that a page does not scan rows that cannot match. For
 * example, a row that was created since yesterday was also updated since yesterday: `updated_at` always increases (see
 * `revision.ts`), so it precedes neither `created_at` nor `sent_at`. A message is not sent before it is created (see
 * `timeOfSending`).
 */
export function withImpliedBounds<F extends AnyTimeFilters>(filters: F, sort: string): F {
  const { created_since, created_before, updated_since, updated_before } = filters
  const { sent_since, sent_before } = filters
  if (sort === 'updated_at') {
    const since = latestOf(updated_since, created_since, sent_since)
    return since === undefined ? filters : { ...filters, updated_since: since }
  }
  if (sort === 'created_at') {
    const before = earliestOf(created_before, updated_before, sent_before && dayAfter(sent_before))
    return before === undefined ? filters : { ...filters, created_before: before }
  }
  return filters
}

/** We assume that the clocks of two backends differ by less than this, and that no clock is set back by more. */
export const CLOCK_MARGIN_MS = 86_400_000

/**
 * Returns the instant a day after `instant`; undefined if this would be after the year 9999, because the texts of such
 * instants do not sort by time. The day is a margin for messages of earlier versions: their `sent_at` can precede their
 * `created_at`, because it comes from the clock of another backend.
 */
function dayAfter(instant: string): string | undefined {
  const later = new Date(Date.parse(instant) + CLOCK_MARGIN_MS).toISOString()
  return later.startsWith('+') ? undefined : later
}

/** Returns the latest of the given times, undefined if none is given. */
export function latestOf(...times: readonly (string | undefined)[]): string | undefined {
  return definedOf(times).sort().at(-1)
}

function earliestOf(...times: readonly (string | undefined)[]): string | undefined {
  return definedOf(times).sort().at(0)
}

function definedOf(times: readonly (string | undefined)[]): string[] {
  return times.filter((time) => time !== undefined)
}

export function timeRangesOf(filters: AnyTimeFilters): readonly TimeRange[] {
  const ranges = [
    ['created_at', filters.created_since, filters.created_before],
    ['updated_at', filters.updated_since, filters.updated_before],
    ['due_date', filters.due_since, filters.due_before],
    ['sent_at', filters.sent_since, filters.sent_before],
  ] as const
  return ranges.filter(([, since, before]) => since !== undefined || before !== undefined)
}

export function withinTimes(filters: AnyTimeFilters, page: KeysetPage): Condition[] {
  return timeRangesOf(filters).flatMap(([column, since, before]) =>
    column === page.sort
      ? withinSorted(page, since, before)
      : within(columnOrUnindexed(page, column), since, before),
  )
}

/**
 * Returns the conditions for the limits of the sort column, except those that the bounds of the page imply. With a
 * limit and a bound, SQLite would begin at the limit: each page would read all pages before it again.
 */
export function withinSorted(page: KeysetPage, since: Value, before: Value): Condition[] {
  const { sort, direction, after, end } = page
  const [low, high] = direction === 'asc' ? [after, end] : [end, after]
  const column = columnOrUnindexed(page, sort)
  return within(column, low ? undefined : since, high ? undefined : before)
}

/** Returns the conditions for `since` (inclusive) and `before` (exclusive), if they are defined. */
export function within(column: Column, since: Value, before: Value): Condition[] {
  const conditions: Condition[] = []
  if (since !== undefined) conditions.push(sql`${expressionOf(column)} >= ${since}`)
  if (before !== undefined) conditions.push(sql`${expressionOf(column)} < ${before}`)
  return conditions
}
