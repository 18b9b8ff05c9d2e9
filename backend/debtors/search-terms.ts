/** The search terms of a debtor: the words of its name, city, e-mail address and external id. */
import type { DebtorRow } from '../database/tables.ts'
import { normalizeForSearch } from './debtors.ts'
import { addressOf } from './details.ts'

/** Limits how many terms of one debtor are stored and indexed. */
const TERMS_MAX = 24
/** The maximum number of characters of a stored term. */
const TERM_LENGTH_MAX = 100

export function searchTermsOf(row: DebtorRow): string[] {
  if (row.erased_at !== null) return []
  const { city } = addressOf(row)
  const texts = [row.name, city ?? '', row.email ?? '', row.external_id ?? '']
  const terms = texts.flatMap((text) => {
    const words = wordsOf(text)
    // A search finds `O'Brien` by the whole word and by each of its parts.
    return [...words, ...words.flatMap((word) => word.split(/[^\p{L}\p{N}]+/u))]
  })
  const truncated = terms.map((term) => [...term].slice(0, TERM_LENGTH_MAX).join(''))
  return [...new Set(truncated)].filter((term) => term !== '').slice(0, TERMS_MAX)
}

/**
 * Splits a text or a search query into normalized words. Letters that people also write in another way are replaced, so
 * that `STRASSE` finds `Straße`, and `istanbul` and `Istanbul` find `İstanbul`. Invisible characters, which people copy
 * without noticing, are removed.
 */
export function wordsOf(text: string): string[] {
  const folded = normalizeForSearch(text)
    .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
    .replaceAll('ß', 'ss')
    // The lower case of `İ` is an `i` with a combining dot; `ı` is the Turkish `i` without a dot.
    .replace(/[iı]\u0307*/gu, 'i')
  return split(folded)
}

/**
 * Returns the words as `wordsOf` returned them before migration 0042. Terms that older versions stored, during an
 * upgrade or a rollback, are found only by these words until they are replaced.
 */
export function unfoldedWordsOf(text: string): string[] {
  return split(normalizeForSearch(text))
}

function split(text: string): string[] {
  return text.split(/\s+/u).filter((word) => word !== '')
}
