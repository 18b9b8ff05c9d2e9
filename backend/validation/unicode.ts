/**
 * Normalizes texts in linear time. Sorting the combining marks of one character takes quadratic time: a text of 120,000
 * marks would block the process, and thus all other requests, for 20 seconds.
 */

/**
 * More than 30 combining marks in a row, which do not occur in any language. The limit is that of the Stream-Safe Text
 * Format (UAX #15). In NFKC, the two voiced sound marks of half-width katakana also become combining marks.
 */
const LONG_SEQUENCE = /[\p{M}\uff9e\uff9f]{31}/u

export function hasTooManyMarks(text: string): boolean {
  return LONG_SEQUENCE.test(text)
}

/** Returns the text in the normalization form, or unchanged if it has too many combining marks in a row. */
export function normalizeText(text: string, form: 'NFC' | 'NFKC'): string {
  return hasTooManyMarks(text) ? text : text.normalize(form)
}

/**
 * Matches a text in which nothing is visible: white space, and characters that are never shown by themselves, such as
 * zero-width spaces and marks of the writing direction.
 */
const INVISIBLE = /^[\s\p{Default_Ignorable_Code_Point}]*$/u

/**
 * Returns the text without spaces at both ends, or '' if no character is visible. Pages show many texts, such as names,
 * as links, and a link without a visible character could not be seen.
 */
export function trimText(text: string): string {
  return INVISIBLE.test(text) ? '' : text.trim()
}
