/** Rows that one transaction writes at most: a few milliseconds, for which a payment may have to wait. */
const BATCH_MAX = 250

/** One after the other, so that other transactions come between two of them. */
export async function inBatches<T>(
  rows: readonly T[],
  write: (batch: readonly T[]) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < rows.length; at += BATCH_MAX) await write(rows.slice(at, at + BATCH_MAX))
}
