/** Finds debtors by words: each word of the search must be a prefix of one of the debtor's search terms. */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { prefixRange } from '../lists/prefix.ts'
import { unfoldedWordsOf, wordsOf } from './search-terms.ts'

/**
 * Limits the cost of a search. The longest words are used and the others ignored, because long words usually match the
 * fewest debtors.
 */
const WORDS_MAX = 6

/** To find the rarest word of a search, the terms that begin with a word are counted, at most this many per word. */
const COUNTED_MAX = 500

export interface FoundDebtors {
  readonly ids: readonly string[]
  /** Whether more debtors match than were returned. */
  readonly isTruncated: boolean
}

/** Returns at most `limit` debtors, in no particular order. */
export async function findDebtorsByWords(
  reader: Reader,
  accountId: string,
  text: string,
  limit: number,
): Promise<FoundDebtors> {
  const words = wordsOf(text)
  const unfolded = unfoldedWordsOf(text)
  const found = await findByTerms(reader, accountId, words, limit)
  if (words.join(' ') === unfolded.join(' ')) return found
  // During an upgrade or after a rollback, a backend of an older version may store terms that are not folded (`straße`
  // instead of `strasse`). They remain until the worker of this version has computed them again.
  const others = await findByTerms(reader, accountId, unfolded, limit)
  const ids = [...new Set([...found.ids, ...others.ids])]
  const isTruncated = found.isTruncated || others.isTruncated || ids.length > limit
  return { ids: ids.slice(0, limit), isTruncated }
}

async function findByTerms(
  reader: Reader,
  accountId: string,
  words: readonly string[],
  limit: number,
): Promise<FoundDebtors> {
  // Only the rarest word is looked up in the index; the other words filter the debtors found.
  const [first, ...others] = await sortByRarity(reader, accountId, words)
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

/** Returns the longest words, at most `WORDS_MAX`: the rarest first, and of equally rare words, the longest first. */
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

function beginsWith(column: string, prefix: string) {
  const name = sql.ref(column)
  const { from, before } = prefixRange(prefix)
  return sql<SqlBool>`(${name} >= ${from} and ${name} < ${before})`
}
