/**
 * Random bytes for ids, from a pool that one call of `randomFillSync` fills. With a call for each byte, the ids of a
 * request would take 7 µs.
 */
import { randomFillSync } from 'node:crypto'

const pool = Buffer.alloc(4096)
let usedBytes = pool.length

/** Returns `bytes` random bytes, at most the length of the pool, as hexadecimal text. */
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
  if (usedBytes + bytes > pool.length) {
    randomFillSync(pool)
    usedBytes = 0
  }
  usedBytes += bytes
  return usedBytes - bytes
}
