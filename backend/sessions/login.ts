/** Login: starts a session for an e-mail address and a password. */
import { Problem } from '../../shared/contract/problem.ts'
import type { Actor } from '../accounts/audit.ts'
import { recordAudit } from '../accounts/audit.ts'
import type { Database } from '../database/database.ts'
import type { Transaction, UserRow } from '../database/tables.ts'
import type { Passwords } from '../users/passwords.ts'
import { findUserByEmail, setPasswordHash } from '../users/users.ts'
import { claimGuess, forgiveGuess, type Guesser } from './login-guesses.ts'
import { type SecondFactorBox, useSecondFactor } from './second-factor.ts'
import { type Browser, endSession, findPendingUser, startSession } from './sessions.ts'

export interface LoginDeps {
  readonly database: Database
  readonly passwords: Passwords
}

export interface Login {
  /** The token of the new session. */
  readonly token: string
  /** The session is pending until `completeLogin`. */
  readonly needsSecondFactor: boolean
}

export interface Credentials extends Guesser, Pick<Browser, 'userAgent'> {
  readonly password: string
  /**
   * The token that the browser sent. This session ends, so that a token planted by an attacker becomes
   * invalid.
   */
  readonly token: string | undefined
}

/**
 * Starts a session. Throws `Problem` `login_failed`, with the same response after the same time for an
 * unknown address, a wrong password and a deactivated user; `too_many_logins`.
 */
export async function logIn(
  { database, passwords }: LoginDeps,
  { password, token, userAgent, ...guesser }: Credentials,
  now: Date,
): Promise<Login> {
  await database.transaction((tx) => claimGuess(tx, guesser, now))
  const user = await findUserByEmail(database.read, guesser.email)
  const active = user?.status === 'active' ? user : undefined
  const isRight = await passwords.verify(active?.password_hash, password)
  if (!isRight || active === undefined) {
    await recordFailure(database, user, guesser, now)
    throw new Problem('login_failed', 'E-mail address and password do not match.')
  }
  const rehashed = passwords.isOutdated(active.password_hash)
    ? await passwords.hash(password)
    : undefined
  return database.transaction(async (tx) => {
    if (rehashed !== undefined) await setPasswordHash(tx, active.id, rehashed, now)
    await forgiveGuess(tx, guesser, now)
    if (token !== undefined) await endSession(tx, token)
    const needsSecondFactor = active.totp_enabled_at !== null
    if (!needsSecondFactor) await recordLogin(tx, active, guesser.address, now)
    const browser = { address: guesser.address, userAgent }
    return {
      token: await startSession(tx, active, browser, now, needsSecondFactor),
      needsSecondFactor,
    }
  })
}

export interface SecondStep extends Browser {
  /** The token of the pending session, which ends. */
  readonly token: string | undefined
  /** A code of the app, or a recovery code. */
  readonly code: string
}

/**
 * Returns the token of the complete session. Throws `Problem` `login_failed` if the code is wrong or was
 * used, or if the password was entered too long ago; `too_many_logins`.
 */
export async function completeLogin(
  database: Database,
  { token, code, address, userAgent }: SecondStep,
  box: SecondFactorBox,
  now: Date,
): Promise<string> {
  const user = await findPendingUser(database.read, token, now)
  if (user === undefined || token === undefined) {
    throw new Problem('login_failed', 'Log in again: your password was entered too long ago.')
  }
  // Counted by user, whatever the browser: a code has only a million values.
  const guesser = { email: `second factor ${user.id}`, address }
  await database.transaction((tx) => claimGuess(tx, guesser, now))
  const act = { actor: actorOf(user, address), now }
  const complete = await database.transaction(async (tx) => {
    if (!(await useSecondFactor(tx, user.id, code, box, act))) {
      await recordAudit(tx, act, {
        accountId: user.account_id,
        action: 'user.second_factor_failed',
        subjectId: user.id,
      })
      return undefined
    }
    await forgiveGuess(tx, guesser, now)
    await endSession(tx, token)
    await recordLogin(tx, user, address, now)
    return startSession(tx, user, { address, userAgent }, now)
  })
  if (complete !== undefined) return complete
  throw new Problem('login_failed', 'This code is wrong or was used already. Enter the next one.')
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

/** Written for unknown users too, so that both cases take the same time. */
async function recordFailure(
  database: Database,
  user: UserRow | undefined,
  { address }: Guesser,
  now: Date,
): Promise<void> {
  const actor: Actor = {
    type: 'system',
    id: null,
    label: 'not logged in',
    address: address ?? null,
  }
  await database.transaction((tx) =>
    recordAudit(
      tx,
      { actor, now },
      {
        accountId: user?.account_id ?? null,
        action: 'user.login_failed',
        subjectId: user?.id ?? null,
        // The text in the field of the address may be a password.
        detail: user === undefined ? {} : { email: user.email },
      },
    ),
  )
}
