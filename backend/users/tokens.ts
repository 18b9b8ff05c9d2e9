/** Random tokens, e.g. of sessions and invitations. Only their hashes are stored. */
import { createHash, randomBytes } from 'node:crypto'

/** Returns 256 random bits in base64url. */
export function createToken(): string {
  return randomBytes(32).toString('base64url')
}

export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('base64url')
}
