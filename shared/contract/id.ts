/**
 * An id consists of a prefix that names the kind of object, and a ULID. Ids of the same kind sort by the time of their
 * creation, according to the clocks of the processes that create them. For clients, ids are opaque texts of at most 64
 * characters.
 */
import { decodeTime, encodeTime, incrementBase32 } from 'ulid'
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

/** The number of characters of a ULID after the time, which has ten. */
const RANDOM_LENGTH = 16

/**
 * The number of characters at the end of a ULID that are random in each id, with 5 bits each. The characters between
 * the time and this end are random in the first id of a millisecond, and count up in further ids.
 */
const UNPREDICTABLE_LENGTH = 10

const BASE32 = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** The ULID of the last id, without its unpredictable end. */
let lastStart = ''
/** The latest time at which an id was created, in milliseconds since the epoch. */
let lastAt = 0

/**
 * Creates an id. Ids of the same kind that a process creates sort in the order of their creation, even within the same
 * millisecond or after the clock was set back. Nobody can derive an id from another one: a customer who knows the id of
 * one reminder could otherwise forge the bounce of a reminder to another customer.
 */
export function createId(prefix: IdPrefix): string {
  const now = Date.now()
  lastStart =
    now > lastAt
      ? encodeTime(now) + randomText(RANDOM_LENGTH - UNPREDICTABLE_LENGTH)
      : incrementBase32(lastStart)
  lastAt = Math.max(now, lastAt)
  return `${prefix}_${lastStart}${randomText(UNPREDICTABLE_LENGTH)}`
}

/** Returns the time of the id's creation or, if the clock had been set back before, a later time. */
export function timeOfId(id: string): Date {
  return new Date(decodeTime(id.slice(id.indexOf('_') + 1)))
}

/** Returns the lowest id that can be created at this time or later. */
export function lowestIdSince(prefix: IdPrefix, at: Date): string {
  return `${prefix}_${encodeTime(Math.max(0, at.getTime()))}${'0'.repeat(RANDOM_LENGTH)}`
}

function randomText(length: number): string {
  let text = ''
  for (let index = 0; index < length; index++) text += BASE32.charAt(randomByte() % BASE32.length)
  return text
}
