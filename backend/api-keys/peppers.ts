/**
 * A stolen copy of the database is not enough to verify a guessed key, because the pepper is not in it. Peppers
 * have versions, so that they can be rotated: new keys use the first pepper, and existing keys are verified
 * with any of them.
 */
import { createHmac } from 'node:crypto'

export interface Pepper {
  /** The version is stored with each key. */
  readonly version: string
  readonly secret: string
}

/** Returns the hash that is stored for a key. `digest` is what `digestApiKey` returns for the secret of the key. */
export function pepperDigest(digest: string, pepper: Pepper): string {
  return createHmac('sha256', pepper.secret).update(digest).digest('base64url')
}
