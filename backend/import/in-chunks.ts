/** Far below the number of parameters that SQLite and PostgreSQL accept in one statement. */
const CHUNK_MAX = 500

/** Reads the rows of any number of keys, e.g. ids, with one statement for each chunk of the keys. */
export async function inChunks<Row>(
  keys: readonly string[],
  find: (chunk: readonly string[]) => Promise<readonly Row[]>,
): Promise<Row[]> {
  const rows: Row[] = []
  for (let at = 0; at < keys.length; at += CHUNK_MAX) {
    rows.push(...(await find(keys.slice(at, at + CHUNK_MAX))))
  }
  return rows
}
