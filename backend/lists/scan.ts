/**
 * Makes pages of lists in Settings. If no index serves the filters of a list, a scan reads up to `SCAN_MAX` rows in the
 * list's order, and the page consists of the first rows that match. The scan looks for one matching row more, with
 * which the next page begins. If it does not find this row, the next page begins after the last row that was read.
 */

/** The maximum number of rows that one scan reads. Reading them takes some milliseconds. */
export const SCAN_MAX = 5000

export interface ScannedPage<Row> {
  readonly rows: readonly Row[]
  /** The cursor of the next page, e.g. the id after which that page begins; null at the end of the list. */
  readonly next: string | null
  /** Whether the scan read `SCAN_MAX` rows and found no row for the next page. There may be further matching rows. */
  readonly isPartial: boolean
}

/**
 * Makes a page of up to `limit` rows from `scanned`, the rows of a query that read at most `scanMax` rows. Without
 * `matches`, all rows match, and `scanMax` must be `limit + 1`: the additional row shows that there is a next page.
 */
export function pageOfScan<Row extends { readonly id: string }>(
  scanned: readonly Row[],
  { limit, scanMax }: { readonly limit: number; readonly scanMax: number },
  matches?: (row: Row) => boolean,
): ScannedPage<Row> {
  const matching = matches === undefined ? scanned : scanned.filter(matches)
  const rows = matching.slice(0, limit)
  if (matching.length > limit) {
    return { rows, next: rows.at(-1)?.id ?? null, isPartial: false }
  }
  if (matches !== undefined && scanned.length === scanMax) {
    return { rows, next: scanned.at(-1)?.id ?? null, isPartial: true }
  }
  return { rows, next: null, isPartial: false }
}

/** Replaces the ids of the page with whole rows, in the same order. */
export async function withWholeRows<Row extends { readonly id: string }>(
  page: ScannedPage<{ readonly id: string }>,
  readRows: (ids: readonly string[]) => Promise<readonly Row[]>,
): Promise<ScannedPage<Row>> {
  const ids = page.rows.map(({ id }) => id)
  const rows = ids.length === 0 ? [] : await readRows(ids)
  const byId = new Map(rows.map((row) => [row.id, row]))
  return { ...page, rows: ids.flatMap((id) => byId.get(id) ?? []) }
}
