/**
 * The challenges that passkeys sign. Each challenge is valid once, for a few minutes, and only for the browser, the
 * purpose and the user that it was issued for. Challenges are stored in the database, because the browser's response
 * may reach another backend.
 */
import type { Transaction } from '../database/tables.ts'
import { hashToken } from '../users/tokens.ts'
import { PROMPT_MS } from './relying-party.ts'

export interface ChallengeScope {
  readonly purpose: 'add' | 'login' | 'second_factor'
  /** A secret that only this browser has: the token of its session, or the secret of its login form. */
  readonly browserSecret: string
  /** The user whose passkey must sign the challenge; undefined if any passkey may. */
  readonly userId: string | undefined
}

export async function storeChallenge(
  tx: Transaction,
  challenge: string,
  { userId, ...scope }: ChallengeScope,
  now: Date,
): Promise<void> {
  await tx
    .insertInto('passkey_challenges')
    .values({
      challenge_hash: hashToken(challenge),
      browser_hash: scopeHash(scope),
      user_id: userId ?? null,
      created_at: now.toISOString(),
      expires_at: new Date(now.getTime() + PROMPT_MS).toISOString(),
    })
    .execute()
}

/** Returns false if the challenge is unknown, expired or used, or was issued for another scope. */
export async function consumeChallenge(
  tx: Transaction,
  challenge: string,
  { userId, ...scope }: ChallengeScope,
  now: Date,
): Promise<boolean> {
  // A deletion succeeds for only one of two concurrent requests.
  const { numDeletedRows } = await tx
    .deleteFrom('passkey_challenges')
    .where('challenge_hash', '=', hashToken(challenge))
    .where('browser_hash', '=', scopeHash(scope))
    .where('user_id', userId === undefined ? 'is' : '=', userId ?? null)
    .where('expires_at', '>', now.toISOString())
    .executeTakeFirstOrThrow()
  return numDeletedRows === 1n
}

/**
 * Returns the challenge in `clientDataJSON`; an empty text if there is none. `clientDataJSON` comes from the browser,
 * and is not verified here.
 */
export function challengeIn(clientDataJSON: string): string {
  try {
    const data: unknown = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString())
    const hasChallenge = typeof data === 'object' && data !== null && 'challenge' in data
    return hasChallenge && typeof data.challenge === 'string' ? data.challenge : ''
  } catch {
    return ''
  }
}

function scopeHash({ purpose, browserSecret }: Omit<ChallengeScope, 'userId'>): string {
  return hashToken(`${purpose} ${browserSecret}`)
}
