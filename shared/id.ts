/**
 * Identifiers: a prefix that names the kind, and a ULID, so that ids sort by the time they were
 * made and a log line explains itself. Opaque to clients; at most 64 characters (contract 1.1).
 */
import { monotonicFactory } from 'ulid'
import { randomByte } from './random.ts'

export type IdPrefix =
  | 'acct'
  | 'usr'
  | 'ivt'
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

const nextUlid = monotonicFactory(() => randomByte() / 256)

/** A new id. Two made by one process in the same millisecond still sort in the order made. */
export function createId(prefix: IdPrefix): string {
  return `${prefix}_${nextUlid()}`
}
