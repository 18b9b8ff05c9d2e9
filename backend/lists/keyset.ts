/**
 * Pages of a list by keyset: the next page begins after the last row's sort value and id, so that
 * its cost does not grow with its place and rows created meanwhile shift nothing.
 */
import { type Expression, type SqlBool, sql } from 'kysely'

export interface Position {
  /** The last row's value in the sort column. */
  readonly value: string
  readonly id: string
}

export interface Page {
  readonly sort: string
  readonly direction: 'asc' | 'desc'
  /** Rows to fetch: one more than is shown, to know whether there are more. */
  readonly fetch: number
  readonly after: Position | undefined
  /** Set by `ignoreSortIndex`. */
  readonly ignoresSortIndex?: true
}

/**
 * The page of a list that any of these filters, where sent, leaves few rows of. They are then found
 * by the filter and sorted; a database without statistics would rather walk the whole account in the
 * list's order. `debtor_id` is one unless the list is by creation, for which there is an index.
 */
export function ignoreSortIndex(page: Page, ...filters: readonly (string | undefined)[]): Page {
  return filters.every((filter) => filter === undefined)
    ? page
    : { ...page, ignoresSortIndex: true }
}

export type Condition = Expression<SqlBool>

/** Rows after the page's start. Sort column and id are unqualified: filter by subquery, not join. */
export function afterPosition(page: Page): Condition[] {
  const { direction, after } = page
  if (after === undefined) return []
  const key = sql`(${sortOf(page)}, id)`
  const start = sql`(${after.value}, ${after.id})`
  return [direction === 'asc' ? sql`${key} > ${start}` : sql`${key} < ${start}`]
}

/** What follows `order by`. */
export function orderOf(page: Page) {
  const order = sql.raw(page.direction)
  return sql`${sortOf(page)} ${order}, id ${order}`
}

function sortOf({ sort, ignoresSortIndex }: Page) {
  return ignoresSortIndex ? unindexed(sort) : sql.ref(sort)
}

/** A column, or an expression of one. */
export type Column = string | Expression<unknown>

/**
 * The column as an expression, which has its order and no index. A database without statistics takes
 * any filter for one that leaves few rows: it would go through all of a status to find those of one
 * debtor, or sort all that ever fell due to show the youngest.
 */
export function unindexed(column: string): Expression<unknown> {
  return sql`(${sql.ref(column)} || '')`
}

/** The column, `unindexed` where one of these narrower filters was sent. */
export function unindexedIfNarrowedBy(column: string, ...narrower: readonly unknown[]): Column {
  return narrower.some((filter) => filter !== undefined) ? unindexed(column) : column
}

function expressionOf(column: Column): Expression<unknown> {
  return typeof column === 'string' ? sql.ref(column) : column
}

type Value = string | number | undefined

/** No condition where the client sent no value. */
export function equals(column: Column, value: Value): Condition[] {
  return value === undefined ? [] : [sql`${expressionOf(column)} = ${value}`]
}

/** From `since` (inclusive) to `before` (exclusive), each where sent. */
export function within(column: Column, since: Value, before: Value): Condition[] {
  const conditions: Condition[] = []
  if (since !== undefined) conditions.push(sql`${expressionOf(column)} >= ${since}`)
  if (before !== undefined) conditions.push(sql`${expressionOf(column)} < ${before}`)
  return conditions
}

export function isAnyOf(column: Column, values: readonly string[] | undefined): Condition[] {
  return values === undefined ? [] : [sql`${expressionOf(column)} in (${sql.join(values)})`]
}
