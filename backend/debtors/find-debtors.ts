/** Finds debtors by words: each word of the search is a prefix of one of the debtor's terms. */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { wordsOf } from './search-terms.ts'

/** Only the longest words of a search are used. */
const WORDS_MAX = 6

/** A word is rare if few terms begin with it. Counting stops at this number: the word is frequent anyway. */
const COUNTED_MAX = 500

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
  // The rarest word is looked up; the others only filter its results.
  const [first, ...others] = await sortByRarity(reader, accountId, wordsOf(text))
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

/** Returns the `WORDS_MAX` longest words, the rarest first; among equally rare words, the longest first. */
async function sortByRarity(
  reader: Reader,
  accountId: string,
  words: readonly string[],
): Promise<readonly string[]> {
  const longest = words.toSorted((a, b) => b.length - a.length).slice(0, WORDS_MAX)
  if (longest.length < 2) return longest
  const counts = await Promise.all(
    longest.map(async (word) => {
      const terms = reader
        .selectFrom('debtor_terms')
        .select('term')
        .where('account_id', '=', accountId)
        .where(beginsWith('term', word))
        .limit(COUNTED_MAX)
      const { count } = await reader
        .selectFrom(terms.as('terms'))
        .select(({ fn }) => fn.countAll<number | string>().as('count'))
        .executeTakeFirstOrThrow()
      return { word, count: Number(count) }
    }),
  )
  return counts.sort((a, b) => a.count - b.count).map(({ word }) => word)
}

/** A range can use the index. It ends with the last code point, which sorts after all others. */
export function beginsWith(column: string, prefix: string) {
  const name = sql.ref(column)
  return sql<SqlBool>`(${name} >= ${prefix} and ${name} < ${`${prefix}\u{10ffff}`})`
}
