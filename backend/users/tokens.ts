/** Random tokens, e.g. of sessions and invitations. Only their hashes are stored. */
import { createHash, randomBytes } from 'node:crypto'

/** Returns 256 random bits in base64url. */
export function createToken(): string {
  return randomBytes(32).toString('base64url')
}

/** A fast hash without a salt is safe here, because a token has too many bits to be guessed. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('base64url')
}
