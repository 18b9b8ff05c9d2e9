/**
 * A stolen copy of the database is not enough to confirm a key, because the pepper is not in it. Peppers have
 * versions, so that a new one can be introduced: the first is used for new keys, all for verification.
 */
import { createHmac } from 'node:crypto'

export interface Pepper {
  /** Stored with each key. */
  readonly version: string
  readonly secret: string
}

/** The stored hash of a key; `digest` is `digestApiKey` of its secret. */
export function pepperDigest(digest: string, pepper: Pepper): string {
  return createHmac('sha256', pepper.secret).update(digest).digest('base64url')
}
