/**
 * Logs users in with a passkey, which replaces the password or is the second factor after the password. Every rejected
 * passkey causes the same `login_failed`, so that the response does not reveal which passkeys or users exist.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { recordAudit } from '../accounts/audit.ts'
import type { Database } from '../database/database.ts'
import type { PasskeyRow, Reader, Transaction, UserRow } from '../database/tables.ts'
import { lockUser } from './factors.ts'
import type { LoginBrowser } from './known-browsers.ts'
import { actorOf, recordFailure, type StartedSession, startFullSession } from './login.ts'
import { countGuess, type Guess, uncountGuess } from './login-guesses.ts'
import {
  type ChallengeScope,
  challengeIn,
  consumeChallenge,
  storeChallenge,
} from './passkey-challenges.ts'
import { listPasskeys } from './passkeys.ts'
import {
  type AuthenticationResponseJSON,
  type PublicKeyCredentialRequestOptionsJSON,
  type RelyingParty,
  requestOptions,
  verifyUse,
} from './relying-party.ts'
import { endPreviousSession, findUserOfPendingSession, type PreviousSession } from './sessions.ts'

export interface PasskeyLoginDeps {
  readonly database: Database
  readonly party: RelyingParty
}

export interface PasskeyAttempt extends LoginBrowser {
  /** A secret of the login form; undefined if the passkey is the second factor after the password. */
  readonly formSecret: string | undefined
  readonly previous: PreviousSession
}

/**
 * Creates a challenge for a login. The challenge counts as a guess, so that the number of challenges is limited. Throws
 * `too_many_logins`. If the passkey is the second factor, throws `login_failed` if no password was entered, if it was
 * entered too long ago, or if the user has no passkey.
 */
export async function beginPasskeyLogin(
  { database, party }: PasskeyLoginDeps,
  attempt: PasskeyAttempt,
  now: Date,
): Promise<PublicKeyCredentialRequestOptionsJSON> {
  const { scope, guess } = await readScopeAndGuess(database.read, attempt, now)
  await database.transaction((tx) => countGuess(tx, guess, now))
  const { userId } = scope
  const allowed = userId === undefined ? [] : await listPasskeys(database.read, userId)
  if (userId !== undefined && allowed.length === 0) throw passkeyNotAccepted()
  const options = await requestOptions(party, allowed)
  await database.transaction((tx) => storeChallenge(tx, options.challenge, scope, now))
  return options
}

/** Starts a session, and ends the session whose token the browser sent. Throws `login_failed`. */
export async function logInWithPasskey(
  { database, party }: PasskeyLoginDeps,
  attempt: PasskeyAttempt,
  response: AuthenticationResponseJSON,
  now: Date,
): Promise<StartedSession> {
  const { scope, guess } = await readScopeAndGuess(database.read, attempt, now)
  const challenge = challengeIn(response.response.clientDataJSON)
  const isValid = await database.transaction((tx) => consumeChallenge(tx, challenge, scope, now))
  if (!isValid) throw new Problem('login_failed', 'This took too long. Try again.')
  const found = await findPasskey(database.read, response.id)
  const usable = found !== undefined && isUsable(found, response, scope) ? found : undefined
  const signCount = usable && (await verifyUse(party, response, challenge, usable.passkey))
  const started =
    usable !== undefined && signCount !== undefined
      ? await database.transaction((tx) =>
          recordUseAndStartSession(tx, { ...usable, signCount }, attempt, guess, now),
        )
      : undefined
  if (started !== undefined) return started
  await recordFailure(
    database,
    'user.passkey_failed',
    { user: found?.user, address: attempt.address },
    now,
  )
  throw passkeyNotAccepted()
}

interface PasskeyOfUser {
  readonly passkey: PasskeyRow
  readonly user: UserRow
}

/**
 * Returns undefined if something has changed since the passkey was read: the passkey was removed, another login changed
 * its signature counter, the user was deactivated, or the pending session ended, e.g. because the password was reset.
 */
async function recordUseAndStartSession(
  tx: Transaction,
  { passkey, user, signCount }: PasskeyOfUser & { readonly signCount: number },
  { previous, formSecret, ...browser }: PasskeyAttempt,
  guess: Guess,
  now: Date,
): Promise<StartedSession | undefined> {
  const { status } = await lockUser(tx, user.id)
  if (status !== 'active') return undefined
  const isSecondFactor = formSecret === undefined
  if (isSecondFactor && (await findUserOfPendingSession(tx, previous.token, now)) === undefined)
    return undefined
  const { numUpdatedRows } = await tx
    .updateTable('passkeys')
    .set({ sign_count: signCount, last_used_at: now.toISOString() })
    .where('id', '=', passkey.id)
    .where('sign_count', '=', passkey.sign_count)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) return undefined
  await uncountGuess(tx, guess, now)
  await endPreviousSession(tx, previous)
  await recordAudit(
    tx,
    { actor: actorOf(user, browser.address), now },
    {
      accountId: user.account_id,
      action: 'user.logged_in_with_passkey',
      subjectId: user.id,
      detail: { name: passkey.name },
    },
  )
  return startFullSession(tx, user, browser, now)
}

/** Guesses are counted by IP address. They are also counted by user or, if no password was entered, by login form. */
async function readScopeAndGuess(
  reader: Reader,
  { formSecret, previous: { token }, address }: PasskeyAttempt,
  now: Date,
): Promise<{ readonly scope: ChallengeScope; readonly guess: Guess }> {
  if (formSecret !== undefined) {
    const scope = { purpose: 'login', browserSecret: formSecret, userId: undefined } as const
    return { scope, guess: { purpose: 'passkey', subject: formSecret, address } }
  }
  const user = await findUserOfPendingSession(reader, token, now)
  if (user === undefined || token === undefined) {
    throw new Problem('login_failed', 'Log in again: your password was entered too long ago.')
  }
  const scope = { purpose: 'second_factor', browserSecret: token, userId: user.id } as const
  return { scope, guess: { purpose: 'second_factor', subject: user.id, address } }
}

async function findPasskey(
  reader: Reader,
  credentialId: string,
): Promise<PasskeyOfUser | undefined> {
  const passkey = await reader
    .selectFrom('passkeys')
    .selectAll()
    .where('credential_id', '=', credentialId)
    .executeTakeFirst()
  if (passkey === undefined) return undefined
  const user = await reader
    .selectFrom('users')
    .selectAll()
    .where('id', '=', passkey.user_id)
    .executeTakeFirstOrThrow()
  return { passkey, user }
}

/**
 * Whether the user of the passkey may log in with it. The response contains the id of the user as `userHandle`. The
 * browser may omit it only if the passkey is the second factor, because the password has then identified the user.
 */
function isUsable(
  { user }: PasskeyOfUser,
  { response: { userHandle } }: AuthenticationResponseJSON,
  { userId }: ChallengeScope,
): boolean {
  const isUserIdentified =
    userHandle === undefined
      ? userId !== undefined
      : Buffer.from(userHandle, 'base64url').toString() === user.id
  return (
    user.status === 'active' && isUserIdentified && (userId === undefined || userId === user.id)
  )
}

function passkeyNotAccepted(): Problem {
  return new Problem(
    'login_failed',
    'This passkey was not accepted. Try again, or use another way to log in.',
  )
}
