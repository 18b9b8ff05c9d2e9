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
 * only there. At every position, it would take quadratic time in an imported cell with many spaces. `FORMULA_STARTS`
 * does look behind at every position, but the texts that it searches are short.
 */
const ESCAPES = /'(?<=(?:^|;\s*)')(?='*[=+\-@\t\r＝＋－＠])/g

export function escapeFormulas(text: string): string {
  return text.replace(FORMULA_STARTS, "'")
}

export function unescapeFormulas(text: string): string {
  return text.replace(ESCAPES, '')
}
