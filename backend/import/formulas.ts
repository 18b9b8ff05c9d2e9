/**
 * Prevents spreadsheet programs from reading a text of a CSV file as a formula. Lists that people download are escaped, and
 * imports remove the escapes, so that a downloaded list can be imported.
 */

/**
 * The characters that begin a formula at the start of a text or after a semicolon. Semicolons matter because they separate
 * cells in countries in which the decimal mark is a comma. Apostrophes may precede the character, so that removing the
 * escapes restores a text that contained the apostrophes before.
 */
const FORMULA_STARTS = /(?<=^|;\s*)(?='*[=+\-@\t\r＝＋－＠])/g
/**
 * The apostrophes that `escapeFormulas` has added. The pattern begins with the apostrophe, because looking behind at
 * each of many spaces would take quadratic time.
 */
const ESCAPES = /'(?<=(?:^|;\s*)')(?='*[=+\-@\t\r＝＋－＠])/g

/** Adds an apostrophe before each part of the text that would be a formula. */
export function escapeFormulas(text: string): string {
  return text.replace(FORMULA_STARTS, "'")
}

export function unescapeFormulas(text: string): string {
  return text.replace(ESCAPES, '')
}
