/**
 * Peppers keep a stolen copy of the database from confirming a key. Versioned, so that a new one can
 * be introduced: the first mints, all verify.
 */
import { createHmac } from 'node:crypto'

export interface Pepper {
  /** Stored with each key. */
  readonly version: string
  readonly secret: string
}

/** What the database holds of a key; `digest` is `digestApiKey` of its secret. */
export function pepperDigest(digest: string, pepper: Pepper): string {
  return createHmac('sha256', pepper.secret).update(digest).digest('base64url')
}
