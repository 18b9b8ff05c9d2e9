/**
 * Keyset pagination: the next page starts after the sort value and id of the last row. The cost of a page
 * therefore does not depend on its position, and new rows do not shift it.
 */
import { type Expression, type SqlBool, sql } from 'kysely'

export interface Position {
  /** The last row's value in the sort column. */
  readonly value: string
  readonly id: string
}

export interface Page extends PageForm {
  readonly after: Position | undefined
}

/** The properties of a page that become part of the SQL text. */
export interface PageForm {
  readonly sort: string
  readonly direction: 'asc' | 'desc'
  /** The number of rows to fetch: one more than are shown, to detect whether there is a next page. */
  readonly fetch: number
  /** Set by `ignoreSortIndex`. */
  readonly ignoresSortIndex?: true
}

/** The position after which a page starts, for `preparedPage`; empty for the first page. */
export interface PageStart {
  readonly startValue?: string
  readonly startId?: string
}

export function splitPage({ after, ...form }: Page): { form: PageForm; start: PageStart } {
  return { form, start: after === undefined ? {} : { startValue: after.value, startId: after.id } }
}

export function joinPage(form: PageForm, { startValue, startId }: PageStart): Page {
  const isFirst = startValue === undefined || startId === undefined
  return { ...form, after: isFirst ? undefined : { value: startValue, id: startId } }
}

/**
 * For a list with a selective filter: makes the database find rows by the filter and then sort them. A database
 * without statistics would otherwise scan the whole account in the list's order. Callers do not pass `debtor_id`
 * for a list that is sorted by creation, because an index serves this combination.
 */
export function ignoreSortIndex(page: Page, ...filters: readonly (string | undefined)[]): Page {
  return filters.every((filter) => filter === undefined)
    ? page
    : { ...page, ignoresSortIndex: true }
}

export type Condition = Expression<SqlBool>

/**
 * The condition for rows after the page's start. The sort column and the id have no table name, so callers
 * must filter by subquery, not by join.
 */
export function afterPosition(page: Page): Condition[] {
  const { direction, after } = page
  if (after === undefined) return []
  const key = sql`(${sortOf(page)}, id)`
  const start = sql`(${after.value}, ${after.id})`
  return [direction === 'asc' ? sql`${key} > ${start}` : sql`${key} < ${start}`]
}

/** The expressions of `order by`. */
export function orderOf(page: Page) {
  const order = sql.raw(page.direction)
  return sql`${sortOf(page)} ${order}, id ${order}`
}

function sortOf({ sort, ignoresSortIndex }: Page) {
  return ignoresSortIndex ? unindexed(sort) : sql.ref(sort)
}

/** A column or an expression. */
export type Column = string | Expression<unknown>

/**
 * The column as an expression, for which no index is used. A database without statistics assumes that every
 * filter is selective: it would read all rows of a status to find those of one debtor, or sort all overdue
 * invoices to show the latest.
 */
export function unindexed(column: string): Expression<unknown> {
  return sql`(${sql.ref(column)} || '')`
}

/** The column, `unindexed` if one of these more selective filters was sent. */
export function unindexedIfNarrowedBy(column: string, ...narrower: readonly unknown[]): Column {
  return narrower.some((filter) => filter !== undefined) ? unindexed(column) : column
}

function expressionOf(column: Column): Expression<unknown> {
  return typeof column === 'string' ? sql.ref(column) : column
}

type Value = string | number | undefined

/**
 * For columns with few values, e.g. a status or a currency: the value is part of the statement's text instead
 * of a parameter. PostgreSQL keeps one plan for each text, and the best index depends on how many rows have
 * the value.
 */
export function equalsLiteral(column: Column, value: string | undefined): Condition[] {
  return value === undefined ? [] : [sql`${expressionOf(column)} = ${sql.lit(value)}`]
}

export function isInLiterals(column: Column, values: readonly string[] | undefined): Condition[] {
  const list = values?.map((value) => sql.lit(value))
  return list === undefined ? [] : [sql`${expressionOf(column)} in (${sql.join(list)})`]
}

/** Returns no condition if the client sent no value. */
export function equals(column: Column, value: Value): Condition[] {
  return value === undefined ? [] : [sql`${expressionOf(column)} = ${value}`]
}

/** From `since` (inclusive) to `before` (exclusive); each is optional. */
export function within(column: Column, since: Value, before: Value): Condition[] {
  const conditions: Condition[] = []
  if (since !== undefined) conditions.push(sql`${expressionOf(column)} >= ${since}`)
  if (before !== undefined) conditions.push(sql`${expressionOf(column)} < ${before}`)
  return conditions
}
