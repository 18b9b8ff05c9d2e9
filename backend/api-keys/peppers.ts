/**
 * A stolen copy of the database is not enough to verify a guessed key, because the pepper is not in it. Peppers
 * have versions, so that they can be rotated: the first protects new keys, and all of them verify keys.
 */
import { createHmac } from 'node:crypto'

export interface Pepper {
  /** Stored with each key. */
  readonly version: string
  readonly secret: string
}

/** Returns the hash of a key that is stored; `digest` is `digestApiKey` of its secret. */
export function pepperDigest(digest: string, pepper: Pepper): string {
  return createHmac('sha256', pepper.secret).update(digest).digest('base64url')
}
