/** Writes any number of rows, in several statements, because a single statement could have too many parameters. */

/**
 * The maximum number of rows in one statement. SQLite accepts 32,766 parameters (and PostgreSQL more), which is enough
 * for 500 rows of `messages`, the widest table that is written in parts.
 */
const ROWS_MAX = 500

export async function writeInParts<T>(
  rows: readonly T[],
  write: (part: readonly T[]) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < rows.length; at += ROWS_MAX) await write(rows.slice(at, at + ROWS_MAX))
}
