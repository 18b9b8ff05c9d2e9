/**
 * An id consists of a prefix that names the kind of object, and a ULID. The prefix tells readers of a log what kind
 * of object the id refers to. Ids of the same kind sort by the time of their creation. For clients, ids are opaque
 * texts of at most 64 characters.
 */
import { decodeTime, encodeTime, incrementBase32, ulid } from 'ulid'
import { randomByte } from '../process/random.ts'

export type IdPrefix =
  | 'acct' // an account
  | 'usr' // a user of the Settings pages
  | 'ivt' // an invitation
  | 'pwr' // a password reset
  | 'psk' // a passkey
  | 'key' // an API key
  | 'deb' // a debtor
  | 'inv' // an invoice
  | 'pay' // a payment
  | 'msg' // a message
  | 'imp' // an import
  | 'mtr' // a transition of a message
  | 'evt' // an event
  | 'whe' // a webhook endpoint
  | 'whd' // a webhook delivery
  | 'aud' // an audit entry
  | 'ntc' // a notice
  | 'mlo' // a mail in the outbox
  | 'req' // a request
  | 'gtw' // a gateway process

/** The number of characters of a ULID that are random. The first ten contain the time. */
const RANDOM_LENGTH = 16

/** The ULID of the last id. */
let lastUlid = ''
/** The latest time at which an id was created, in milliseconds since the epoch. */
let lastAt = 0

/**
 * Creates an id. Ids of the same kind that a process creates sort in the order of their creation, even within the same
 * millisecond or after the clock was set back.
 */
export function createId(prefix: IdPrefix): string {
  const now = Date.now()
  // `monotonicFactory` of ulid would format the time for each id again, which is a third of the cost.
  lastUlid = now > lastAt ? ulid(now, randomFraction) : incrementBase32(lastUlid)
  lastAt = Math.max(now, lastAt)
  return `${prefix}_${lastUlid}`
}

/**
 * Returns the time in the id: the time of its creation or, if the clock had been set back before, a later time, because
 * the ids of a process always increase.
 */
export function timeOfId(id: string): Date {
  return new Date(decodeTime(id.slice(id.indexOf('_') + 1)))
}

/** Returns the lowest id that can be created since this time. */
export function lowestIdSince(prefix: IdPrefix, at: Date): string {
  return `${prefix}_${encodeTime(Math.max(0, at.getTime()))}${'0'.repeat(RANDOM_LENGTH)}`
}

/** One byte suffices, because ulid turns each number into one of 32 characters. */
function randomFraction(): number {
  return randomByte() / 256
}
