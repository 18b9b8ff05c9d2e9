/**
 * Sums of amounts. A sum above `SUM_MAX` cannot be represented exactly as a number, and reading it from PostgreSQL would
 * fail. `SUM_MAX` is returned in its place, so that an account with such sums can still be read.
 */
import { type RawBuilder, sql } from 'kysely'

/** The highest integer that every parser of JSON reads exactly. */
export const SUM_MAX = Number.MAX_SAFE_INTEGER

export function capped(sum: number): number {
  return Math.min(sum, SUM_MAX)
}

/** The sum of a column of whole numbers, at most `SUM_MAX`. Null if there are no rows. */
export function cappedSum(column: string | RawBuilder<unknown>): RawBuilder<number> {
  const sum = sql`sum(${typeof column === 'string' ? sql.ref(column) : column})`
  return sql<number>`case when ${sum} > ${sql.lit(SUM_MAX)} then ${sql.lit(SUM_MAX)} else ${sum} end`
}
