/**
 * Random bytes for ids. A call to the system for each byte is expensive (half a µs, which was 7 µs a
 * call), so that they come from a pool that is filled a page at a time.
 */
import { randomFillSync } from 'node:crypto'

const pool = Buffer.alloc(4096)
let used = pool.length

/** At most a page. */
export function randomHex(bytes: number): string {
  const from = take(bytes)
  return pool.toString('hex', from, from + bytes)
}

/** From 0 to 255. */
export function randomByte(): number {
  return pool[take(1)] ?? 0
}

/** Returns the offset of the next bytes; no byte is used twice. */
function take(bytes: number): number {
  if (used + bytes > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += bytes
  return used - bytes
}
