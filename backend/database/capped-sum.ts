/**
 * Sums of amounts. A sum above `SUM_MAX` is replaced by `SUM_MAX`, because a number cannot represent it exactly, and
 * reading it from PostgreSQL would fail.
 */
import { type RawBuilder, sql } from 'kysely'

/** The highest integer that every parser of JSON reads exactly. */
export const SUM_MAX = Number.MAX_SAFE_INTEGER

export function capped(sum: number): number {
  return Math.min(sum, SUM_MAX)
}

/**
 * Returns the SQL of a sum that is at most `SUM_MAX`. The values of `summand` are whole numbers. Without rows, the
 * result is null, although the type does not say so.
 */
export function cappedSum(summand: string | RawBuilder<unknown>): RawBuilder<number> {
  const sum = sql`sum(${typeof summand === 'string' ? sql.ref(summand) : summand})`
  return sql<number>`case when ${sum} > ${sql.lit(SUM_MAX)} then ${sql.lit(SUM_MAX)} else ${sum} end`
}
