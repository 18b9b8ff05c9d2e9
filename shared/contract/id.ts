/**
 * Identifiers: a prefix that names the kind, and a ULID, so that ids sort by the time they were
 * made and a log line explains itself. Opaque to clients; at most 64 characters (contract 1.1).
 */
import { incrementBase32, ulid } from 'ulid'
import { randomByte } from '../process/random.ts'

export type IdPrefix =
  | 'acct'
  | 'usr'
  | 'ivt'
  | 'pwr'
  | 'key'
  | 'deb'
  | 'inv'
  | 'pay'
  | 'msg'
  | 'mtr'
  | 'evt'
  | 'whe'
  | 'whd'
  | 'aud'
  | 'ntc'
  | 'mlo'
  | 'req'
  | 'gtw'

let last = ''
/** When it was made, in milliseconds since the epoch. */
let lastAt = 0

/** A new id. Two made by one process in the same millisecond still sort in the order made. */
export function createId(prefix: IdPrefix): string {
  const now = Date.now()
  // Not by ulid's own factory: it writes the time anew for each, a third of what an id costs.
  last = now > lastAt ? ulid(now, () => randomByte() / 256) : incrementBase32(last)
  lastAt = Math.max(now, lastAt)
  return `${prefix}_${last}`
}
