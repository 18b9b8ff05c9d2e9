/** Writes many rows in small transactions, so that payments can be recorded between them. */
import { setTimeout as delay } from 'node:timers/promises'

/** Writing 100 rows takes two or three milliseconds. */
const BATCH_MAX = 100

/** With longer pauses, thousands of rows would take seconds. */
const PAUSE_MS_MAX = 5

/**
 * `write` must write each batch in a transaction of its own. After each batch, this function pauses for as long as the
 * batch took, up to `PAUSE_MS_MAX`, so that calls usually get about half of the database's time.
 */
export async function writeInBatches<T>(
  rows: readonly T[],
  write: (batch: readonly T[]) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < rows.length; at += BATCH_MAX) {
    const beganAt = performance.now()
    await write(rows.slice(at, at + BATCH_MAX))
    const isLast = at + BATCH_MAX >= rows.length
    if (!isLast) await delay(Math.min(PAUSE_MS_MAX, performance.now() - beganAt))
  }
}
