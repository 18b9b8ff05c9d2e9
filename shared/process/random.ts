/**
 * Random bytes for what every call needs a few of. Asked for one by one they are dear (half a µs each,
 * which was 7 µs a call); so they are taken from a pool that is filled a page at a time.
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

/** Where the next bytes begin; they are given once. */
function take(bytes: number): number {
  if (used + bytes > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += bytes
  return used - bytes
}
