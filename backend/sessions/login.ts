import { Problem } from '../../shared/contract/problem.ts'
import type { Actor } from '../accounts/audit.ts'
import { recordAudit } from '../accounts/audit.ts'
import type { Database } from '../database/database.ts'
import type { Reader, Transaction, UserRow } from '../database/tables.ts'
import type { Passwords } from '../users/passwords.ts'
import { findUserByEmail, normalizeEmail, setPasswordHash } from '../users/users.ts'
import { hasSecondFactor, lockUser } from './factors.ts'
import { hasLoggedInBefore, type LoginBrowser, recordBrowser } from './known-browsers.ts'
import { countGuess, type Guess, uncountGuess } from './login-guesses.ts'
import { consumeSecondFactorCode, type SecretCipher } from './second-factor.ts'
import {
  endPreviousSession,
  endSession,
  findUserOfPendingSession,
  type PreviousSession,
  startSession,
} from './sessions.ts'
import { recordWrongCode } from './wrong-codes.ts'

export interface LoginDeps {
  readonly database: Database
  readonly passwords: Passwords
}

export interface StartedSession {
  readonly token: string
  readonly browserToken: string
}

export interface Login extends Omit<StartedSession, 'browserToken'> {
  /** Undefined while the session is pending. */
  readonly browserToken: string | undefined
  /** Whether the session is pending. `completeLogin` or `logInWithPasskey` replaces a pending session. */
  readonly needsSecondFactor: boolean
}

export interface Credentials extends LoginBrowser {
  readonly email: string
  readonly password: string
  /** The login ends this session, so that a token planted by an attacker becomes invalid. */
  readonly previous: PreviousSession
}

/**
 * Starts a session. Throws `too_many_logins` or `login_failed`, and 503 if too many passwords wait to be verified. An
 * unknown address, a wrong password and a deactivated user cause the same response after the same time.
 */
export async function logIn(
  { database, passwords }: LoginDeps,
  { email, password, previous, ...browser }: Credentials,
  now: Date,
): Promise<Login> {
  const guess = await guessOf(database.read, email, browser)
  await database.transaction((tx) => countGuess(tx, guess, now))
  const user = await findUserByEmail(database.read, email)
  const active = user?.status === 'active' ? user : undefined
  // Without a hash, `verify` takes as long as with one, and returns false.
  const isRight = await passwords.verify(active?.password_hash, password)
  const rehashed =
    isRight && active !== undefined && passwords.isOutdated(active.password_hash)
      ? await passwords.hash(password)
      : undefined
  const login =
    isRight && active !== undefined
      ? await database.transaction((tx) =>
          startLogin(tx, active, { rehashed, previous, browser, guess }, now),
        )
      : undefined
  if (login !== undefined) return login
  await recordFailure(database, 'user.login_failed', { user, address: guess.address }, now)
  throw new Problem('login_failed', 'E-mail address and password do not match.')
}

/**
 * Guesses in a browser in which the user has logged in before are counted separately. Otherwise, anyone could lock a
 * user out with wrong passwords.
 */
async function guessOf(
  reader: Reader,
  email: string,
  { browserToken, address }: LoginBrowser,
): Promise<Guess> {
  const isKnown = await hasLoggedInBefore(reader, email, browserToken)
  return isKnown
    ? { purpose: 'known_browser', subject: `${browserToken} ${normalizeEmail(email)}`, address }
    : { purpose: 'email', subject: email, address }
}

interface VerifiedLogin extends Pick<Credentials, 'previous'> {
  readonly browser: LoginBrowser
  readonly guess: Guess
  /** The new hash of the password; undefined if the stored hash is up to date. */
  readonly rehashed: string | undefined
}

/**
 * Returns undefined if the password was changed or the user deactivated while the password was verified, which can take
 * seconds. Without this check, the old password could still start a session, and its hash could replace that of the new
 * password.
 */
async function startLogin(
  tx: Transaction,
  verified: UserRow,
  { rehashed, previous, browser, guess }: VerifiedLogin,
  now: Date,
): Promise<Login | undefined> {
  const user = await lockUser(tx, verified.id)
  if (user.password_hash !== verified.password_hash || user.status !== 'active') return undefined
  await uncountGuess(tx, guess, now)
  if (rehashed !== undefined) await setPasswordHash(tx, user.id, rehashed, now)
  await endPreviousSession(tx, previous)
  if (await hasSecondFactor(tx, user)) {
    const pending = await startSession(tx, user, browser, now, { isPending: true })
    return { token: pending, browserToken: undefined, needsSecondFactor: true }
  }
  await recordLogin(tx, user, browser.address, now)
  return { ...(await startFullSession(tx, user, browser, now)), needsSecondFactor: false }
}

/** Starts the session of a completed login, and records the browser. */
export async function startFullSession(
  tx: Transaction,
  user: UserRow,
  browser: LoginBrowser,
  now: Date,
): Promise<StartedSession> {
  const browserToken = await recordBrowser(tx, user, browser, now)
  return { token: await startSession(tx, user, browser, now), browserToken }
}

export interface SecondStep extends LoginBrowser {
  /** The token of the pending session, which ends when the login is complete. */
  readonly token: string | undefined
  /** A code of the authenticator app, or a recovery code. */
  readonly code: string
}

/**
 * Returns the complete session. Throws `too_many_logins`, or `login_failed` if the code is wrong or was used
 * before, or if the password was entered too long ago.
 */
export async function completeLogin(
  database: Database,
  { token, code, ...browser }: SecondStep,
  cipher: SecretCipher,
  now: Date,
): Promise<StartedSession> {
  const { address } = browser
  const user = await findUserOfPendingSession(database.read, token, now)
  if (user === undefined || token === undefined) throw passwordEnteredTooLongAgo()
  // Guesses are counted by user, not by browser, because a code has only a million values.
  const guess = { purpose: 'second_factor', subject: user.id, address } as const
  await database.transaction((tx) => countGuess(tx, guess, now))
  const actionContext = { actor: actorOf(user, address), now }
  const complete = await database.transaction(async (tx) => {
    if (!(await consumeSecondFactorCode(tx, user.id, code, cipher, actionContext))) {
      // An error thrown here would undo the record of the wrong code.
      await recordWrongCode(tx, user, actionContext)
      return undefined
    }
    // The pending session may have been ended since it was read, e.g. because the password was reset.
    if ((await findUserOfPendingSession(tx, token, now)) === undefined)
      throw passwordEnteredTooLongAgo()
    await uncountGuess(tx, guess, now)
    await endSession(tx, token)
    await recordLogin(tx, user, address, now)
    return startFullSession(tx, user, browser, now)
  })
  if (complete !== undefined) return complete
  throw new Problem('login_failed', 'This code is wrong or was already used. Enter another code.')
}

function passwordEnteredTooLongAgo(): Problem {
  return new Problem('login_failed', 'Log in again: your password was entered too long ago.')
}

async function recordLogin(tx: Transaction, user: UserRow, address: string | undefined, now: Date) {
  await recordAudit(
    tx,
    { actor: actorOf(user, address), now },
    { accountId: user.account_id, action: 'user.logged_in', subjectId: user.id },
  )
}

export function actorOf(user: Pick<UserRow, 'id' | 'email'>, address: string | undefined): Actor {
  return { type: 'user', id: user.id, label: user.email, address: address ?? null }
}

const NOT_LOGGED_IN: Actor = {
  type: 'system',
  id: null,
  label: 'not logged in',
  address: null,
}

/** Records the failure for an unknown user too: otherwise, a faster response would reveal that the user is unknown. */
export async function recordFailure(
  database: Database,
  action: 'user.login_failed' | 'user.passkey_failed',
  { user, address }: { readonly user: UserRow | undefined; readonly address: string | undefined },
  now: Date,
): Promise<void> {
  const actor = { ...NOT_LOGGED_IN, address: address ?? null }
  await database.transaction((tx) =>
    recordAudit(
      tx,
      { actor, now },
      {
        accountId: user?.account_id ?? null,
        action,
        subjectId: user?.id ?? null,
        // An e-mail address that no user has may be a password that was typed into the wrong field.
        detail: user === undefined ? {} : { email: user.email },
      },
    ),
  )
}
