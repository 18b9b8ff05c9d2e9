/**
 * An id consists of a prefix that names the kind of object, and a ULID. The prefix tells readers of a log what kind
 * of object the id refers to. Ids of the same kind sort by the time of their creation. For clients, ids are opaque
 * texts of at most 64 characters.
 */
import { incrementBase32, ulid } from 'ulid'
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

let last = ''
/** The time of the last id, in milliseconds since the epoch. */
let lastAt = 0

/**
 * Creates an id. Ids that a process creates in the same millisecond still sort in the order of their
 * creation.
 */
export function createId(prefix: IdPrefix): string {
  const now = Date.now()
  // ulid's own factory would format the time for each id again, which is a third of the cost.
  last = now > lastAt ? ulid(now, () => randomByte() / 256) : incrementBase32(last)
  lastAt = Math.max(now, lastAt)
  return `${prefix}_${last}`
}
