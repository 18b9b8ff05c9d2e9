/**
 * Prevents spreadsheet programs from reading a text of a CSV file as a formula. Lists that people download are escaped,
 * and imports remove the escapes, so that a downloaded list can be imported.
 */

/**
 * Matches the positions before a character that begins a formula: at the start of a text or after a semicolon.
 * Semicolons matter because they separate cells in countries in which the decimal mark is a comma. A text that already
 * has an apostrophe before such a character (`'=1`) gets a second one, so that an import, which removes one, restores
 * the text.
 */
const FORMULA_STARTS = /(?<=^|;\s*)(?='*[=+\-@\t\r＝＋－＠])/g
/**
 * Matches the apostrophes that `escapeFormulas` has added. The lookbehind comes after the apostrophe, so that it runs
 * only there. At every position, it would take quadratic time in a cell with many spaces, which an imported file may
 * contain. `FORMULA_STARTS` may look behind at every position, because the texts that it searches are short.
 */
const ESCAPES = /'(?<=(?:^|;\s*)')(?='*[=+\-@\t\r＝＋－＠])/g

/** Adds an apostrophe before each part of the text that would be a formula. */
export function escapeFormulas(text: string): string {
  return text.replace(FORMULA_STARTS, "'")
}

export function unescapeFormulas(text: string): string {
  return text.replace(ESCAPES, '')
}
