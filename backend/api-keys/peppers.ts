/**
 * A pepper is a secret of the backends. The stored hash of an API key is computed from the key and a pepper. The
 * database contains no pepper, so a stolen copy is not enough to verify a guessed key. Peppers have versions, so that
 * they can be rotated: a new key is hashed with the first pepper in the setting `KEY_PEPPER`, and each key is verified
 * with the pepper with which it was hashed.
 */
import { createHmac } from 'node:crypto'

export interface Pepper {
  readonly version: string
  readonly secret: string
}

/** Returns the hash that is stored for a key. `digest` is the SHA-256 of the key, as `digestApiKey` returns it. */
export function pepperDigest(digest: string, pepper: Pepper): string {
  return createHmac('sha256', pepper.secret).update(digest).digest('base64url')
}
