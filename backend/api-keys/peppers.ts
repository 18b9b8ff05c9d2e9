/**
 * A pepper is a secret of the backends, which is hashed together with each API key. The database contains no pepper, so
 * a stolen copy is not enough to verify a guessed key. A new key is hashed with the first pepper in the setting
 * `KEY_PEPPER`. Each key is verified with the pepper whose version is stored with the key.
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
