/**
 * Merges rows for the same stored row, which `rowKeyOf` identifies, and adds up their calls, because an upsert may
 * update each stored row only once. The result is sorted by row key, so that all transactions lock the stored rows in
 * the same order, which prevents deadlocks.
 */
export function sumByRowKey<Row extends { readonly calls: number }>(
  rows: readonly Row[],
  rowKeyOf: (row: Row) => string,
): Row[] {
  const byRowKey = new Map<string, Row>()
  for (const row of rows) {
    const rowKey = rowKeyOf(row)
    const sum = byRowKey.get(rowKey)
    byRowKey.set(rowKey, sum === undefined ? row : { ...row, calls: sum.calls + row.calls })
  }
  return [...byRowKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
}
