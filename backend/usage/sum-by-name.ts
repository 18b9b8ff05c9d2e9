/**
 * Adds up the calls of rows with the same name. The result has one row per name, because a statement may update
 * each stored row only once. It is sorted by name, so that transactions lock the rows in the same order.
 */
export function sumByName<Row extends { readonly calls: number }>(
  rows: readonly Row[],
  nameOf: (row: Row) => string,
): Row[] {
  const byName = new Map<string, Row>()
  for (const row of rows) {
    const name = nameOf(row)
    const known = byName.get(name)
    byName.set(name, known === undefined ? row : { ...row, calls: known.calls + row.calls })
  }
  return [...byName].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
}
