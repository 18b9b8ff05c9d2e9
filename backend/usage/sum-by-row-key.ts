/**
 * Merges rows with the same key (`rowKeyOf`), and adds up their calls, because PostgreSQL rejects an upsert that
 * updates a stored row twice. The result is sorted by key. All transactions therefore lock the stored rows in the same
 * order, which prevents deadlocks.
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
