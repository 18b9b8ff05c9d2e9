/** Writes any number of rows, in statements that are not too long. */

/**
 * The maximum number of rows in one statement. SQLite accepts 32,766 parameters, which suffice for this many rows even
 * with all columns of messages.
 */
const ROWS_MAX = 500

export async function writeInParts<T>(
  rows: readonly T[],
  write: (part: readonly T[]) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < rows.length; at += ROWS_MAX) await write(rows.slice(at, at + ROWS_MAX))
}
