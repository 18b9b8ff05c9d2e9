/**
 * Prevents spreadsheet programs from reading a text of a CSV file as a formula. Lists that people download are escaped,
 * and imports remove the escapes, so that a downloaded list can be imported.
 */

/**
 * The characters that begin a formula at the start of a text or after a semicolon. Semicolons matter because they
 * separate cells in countries in which the decimal mark is a comma. A text that already has an apostrophe before such a
 * character (`'=1`) gets a second one, so that an import, which removes one, restores the text.
 */
const FORMULA_STARTS = /(?<=^|;\s*)(?='*[=+\-@\t\r＝＋－＠])/g
/**
 * The apostrophes that `escapeFormulas` has added. Only apostrophes are looked behind: the cells of a file may contain
 * many spaces, and looking behind at each would take quadratic time. The texts that `FORMULA_STARTS` searches are
 * short.
 */
const ESCAPES = /'(?<=(?:^|;\s*)')(?='*[=+\-@\t\r＝＋－＠])/g

/** Adds an apostrophe before each part of the text that would be a formula. */
export function escapeFormulas(text: string): string {
  return text.replace(FORMULA_STARTS, "'")
}

export function unescapeFormulas(text: string): string {
  return text.replace(ESCAPES, '')
}
