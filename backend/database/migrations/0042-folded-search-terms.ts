/**
 * Search terms now contain `ss` for `ß`, `i` for the Turkish letters `İ` and `ı`, and no invisible characters. The
 * update makes the trigger of migration 0021 log the debtors whose texts contain these characters; the worker then
 * computes their search terms again. Migration 0045 is for the case that a worker of the previous version does this.
 */
import { backfill } from '../migrating/steps.ts'

/** The texts of which search terms are made. E-mail addresses and external ids are ASCII, which did not change. */
const TEXTS = `name || coalesce(address, '')`

const LETTERS = ['ß', 'ẞ', 'İ', 'ı', 'i\u0307']

/**
 * The invisible characters that occur in texts which people copy: soft hyphens, zero-width spaces and joiners, marks of
 * the writing direction, and variation selectors.
 */
const INVISIBLE_RANGES = [
  [0x00ad, 0x00ad],
  [0x061c, 0x061c],
  [0x200b, 0x200f],
  [0x202a, 0x202e],
  [0x2060, 0x2069],
  [0xfe0e, 0xfe0f],
  [0xfeff, 0xfeff],
] as const

const INVISIBLE = INVISIBLE_RANGES.flatMap(([first, last]) =>
  Array.from({ length: last - first + 1 }, (_, index) => String.fromCodePoint(first + index)),
)

/** Returns a condition for texts that contain one of the letters or invisible characters. */
export function isUnfolded(text: string): string {
  return [...LETTERS, ...INVISIBLE].map((character) => `${text} like '%${character}%'`).join(' or ')
}

export const steps = [backfill({ table: 'debtors', set: 'name = name', where: isUnfolded(TEXTS) })]
