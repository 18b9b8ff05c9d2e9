/**
 * One row per name, sorted by name: a statement may update each stored row only once, and two transactions
 * that lock the same rows lock them in the same order.
 */
export function summed<Row extends { readonly calls: number }>(
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
