/**
 * Random bytes for ids. A system call for each byte is expensive (half a µs, in total 7 µs per request), so
 * bytes come from a pool that is filled page by page.
 */
import { randomFillSync } from 'node:crypto'

const pool = Buffer.alloc(4096)
let used = pool.length

/** Returns `bytes` random bytes, at most a page, as hexadecimal text. */
export function randomHex(bytes: number): string {
  const from = take(bytes)
  return pool.toString('hex', from, from + bytes)
}

/** Returns a number from 0 to 255. */
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
