/** Writes many rows that can wait in small transactions, between which payments are recorded. */
import { setTimeout as delay } from 'node:timers/promises'

/** Rows of one transaction, which takes two or three milliseconds; a payment may wait for it. */
const BATCH_MAX = 100

/** The longest pause between two batches. With longer ones, thousands of rows would take seconds. */
const PAUSE_MS_MAX = 5

/**
 * Writes batches one after the other. After each it pauses for as long as the batch took, up to
 * `PAUSE_MS_MAX`, so that calls get about half of the time.
 */
export async function inBatches<T>(
  rows: readonly T[],
  write: (batch: readonly T[]) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < rows.length; at += BATCH_MAX) {
    const from = performance.now()
    await write(rows.slice(at, at + BATCH_MAX))
    const isLast = at + BATCH_MAX >= rows.length
    if (!isLast) await delay(Math.min(PAUSE_MS_MAX, performance.now() - from))
  }
}
