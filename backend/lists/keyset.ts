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
}

export type Condition = Expression<SqlBool>

/** Rows after the page's start. Sort column and id are unqualified: filter by subquery, not join. */
export function afterPosition({ sort, direction, after }: Page): Condition[] {
  if (after === undefined) return []
  const key = sql`(${sql.ref(sort)}, id)`
  const start = sql`(${after.value}, ${after.id})`
  return [direction === 'asc' ? sql`${key} > ${start}` : sql`${key} < ${start}`]
}

/** What follows `order by`. */
export function orderOf({ sort, direction }: Page) {
  const order = sql.raw(direction)
  return sql`${sql.ref(sort)} ${order}, id ${order}`
}

type Value = string | number | undefined

/** No condition where the client sent no value. */
export function equals(column: string, value: Value): Condition[] {
  return value === undefined ? [] : [sql`${sql.ref(column)} = ${value}`]
}

/** From `since` (inclusive) to `before` (exclusive), each where sent. */
export function within(column: string, since: Value, before: Value): Condition[] {
  const conditions: Condition[] = []
  if (since !== undefined) conditions.push(sql`${sql.ref(column)} >= ${since}`)
  if (before !== undefined) conditions.push(sql`${sql.ref(column)} < ${before}`)
  return conditions
}

export function isAnyOf(column: string, values: readonly string[] | undefined): Condition[] {
  return values === undefined ? [] : [sql`${sql.ref(column)} in (${sql.join(values)})`]
}
