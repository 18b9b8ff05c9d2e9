/**
 * Pages of a list by conditions that no index serves: rows are read in the list's order, at most so
 * many, and those that match are kept. Where the limit of the scan comes first, the next page goes on
 * behind the last row that was read.
 */

/** Some milliseconds, however large the account is. */
export const SCAN_MAX = 5000

export interface Scanned<Row> {
  readonly rows: readonly Row[]
  /** The id after which the next page begins; null where the list ends. */
  readonly next: string | null
  /** Whether the scan ended before the page was full. */
  readonly isPartial: boolean
}

/** Of rows read in order, up to `read` of them; `matches` undefined keeps all. */
export function scanned<Row extends { readonly id: string }>(
  found: readonly Row[],
  { limit, read }: { readonly limit: number; readonly read: number },
  matches?: (row: Row) => boolean,
): Scanned<Row> {
  const matching = matches === undefined ? found : found.filter(matches)
  const rows = matching.slice(0, limit)
  if (matching.length > limit) {
    return { rows, next: rows.at(-1)?.id ?? null, isPartial: false }
  }
  if (matches !== undefined && found.length === read) {
    return { rows, next: found.at(-1)?.id ?? null, isPartial: true }
  }
  return { rows, next: null, isPartial: false }
}
