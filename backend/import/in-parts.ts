/** Far fewer than the placeholders that either database accepts in a statement. */
const NAMES_MAX = 500

/** Reads the rows of many names or ids, with several statements if they are too many for one statement. */
export async function inParts<Row>(
  names: readonly string[],
  find: (names: readonly string[]) => Promise<readonly Row[]>,
): Promise<Row[]> {
  const rows: Row[] = []
  for (let at = 0; at < names.length; at += NAMES_MAX) {
    rows.push(...(await find(names.slice(at, at + NAMES_MAX))))
  }
  return rows
}
