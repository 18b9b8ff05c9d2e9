/** Finds debtors by words: each word of the search is a prefix of one of the debtor's terms. */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { wordsOf } from './search-terms.ts'

/** Further words are ignored. */
const WORDS_MAX = 6

export interface FoundDebtors {
  readonly ids: readonly string[]
  /** Whether there are more results than were returned. Another word narrows the search. */
  readonly isTruncated: boolean
}

/** Returns at most `limit` debtors, in no particular order. */
export async function findDebtorsByWords(
  reader: Reader,
  accountId: string,
  text: string,
  limit: number,
): Promise<FoundDebtors> {
  // The longest word finds fewest debtors; the others only filter its results.
  const [first, ...others] = wordsOf(text)
    .sort((a, b) => b.length - a.length)
    .slice(0, WORDS_MAX)
  if (first === undefined) return { ids: [], isTruncated: false }
  const rows = await reader
    .selectFrom('debtor_terms as found')
    .select('found.debtor_id')
    .distinct()
    .where('found.account_id', '=', accountId)
    .where(beginsWith('found.term', first))
    .where((eb) =>
      eb.and(
        others.map(
          (word) => sql<SqlBool>`exists (
            select 1 from debtor_terms where debtor_terms.debtor_id = found.debtor_id
              and ${beginsWith('debtor_terms.term', word)}
          )`,
        ),
      ),
    )
    .limit(limit + 1)
    .execute()
  const ids = rows.slice(0, limit).map((row) => row.debtor_id)
  return { ids, isTruncated: rows.length > limit }
}

/** A range, which an index serves; it ends at the last code point. */
export function beginsWith(column: string, prefix: string) {
  const name = sql.ref(column)
  return sql<SqlBool>`(${name} >= ${prefix} and ${name} < ${`${prefix}\u{10ffff}`})`
}
