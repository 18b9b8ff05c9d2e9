/**
 * Sums of amounts. A sum above `SUM_MAX` cannot be represented exactly as a number, and reading it from PostgreSQL
 * would fail. `SUM_MAX` therefore replaces such a sum, so that responses and pages that show the sum do not fail.
 */
import { type RawBuilder, sql } from 'kysely'

/** The highest integer that every parser of JSON reads exactly. */
export const SUM_MAX = Number.MAX_SAFE_INTEGER

export function capped(sum: number): number {
  return Math.min(sum, SUM_MAX)
}

/**
 * Returns the SQL of a sum that is at most `SUM_MAX`. `summand` is a column or an expression, and all its values are
 * whole numbers. Without rows, the result is null, although the type does not say so.
 */
export function cappedSum(summand: string | RawBuilder<unknown>): RawBuilder<number> {
  const sum = sql`sum(${typeof summand === 'string' ? sql.ref(summand) : summand})`
  return sql<number>`case when ${sum} > ${sql.lit(SUM_MAX)} then ${sql.lit(SUM_MAX)} else ${sum} end`
}
