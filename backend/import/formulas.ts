/**
 * Prevents spreadsheet programs from reading a text of a CSV file as a formula. Lists that people download are escaped,
 * and imports remove the escapes, so that a downloaded list can be imported.
 */

/**
 * Matches the positions before a character that begins a formula: at the start of a text or after a semicolon, which
 * separates cells in countries in which the decimal mark is a comma. A text that already has an apostrophe before such
 * a character (`'=1`) gets a second one, because an import removes one.
 */
const FORMULA_STARTS = /(?<=^|;\s*)(?='*[=+\-@\t\r＝＋－＠])/g
/**
 * Matches the apostrophes that `escapeFormulas` has added. The lookbehind comes after the apostrophe, so that it runs
 * only at apostrophes. If it ran at every position, as in `FORMULA_STARTS`, an imported cell with many spaces would
 * take quadratic time. The texts in which `FORMULA_STARTS` is searched are short.
 */
const ESCAPES = /'(?<=(?:^|;\s*)')(?='*[=+\-@\t\r＝＋－＠])/g

export function escapeFormulas(text: string): string {
  return text.replace(FORMULA_STARTS, "'")
}

export function unescapeFormulas(text: string): string {
  return text.replace(ESCAPES, '')
}
