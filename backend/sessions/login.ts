/** Logging in: an e-mail address and a password become a session. */
import { Problem } from '../../shared/contract/problem.ts'
import type { Actor } from '../accounts/audit.ts'
import { recordAudit } from '../accounts/audit.ts'
import type { Database } from '../database/database.ts'
import type { UserRow } from '../database/tables.ts'
import type { Passwords } from '../users/passwords.ts'
import { findUserByEmail, setPasswordHash } from '../users/users.ts'
import { claimGuess, forgiveGuess, type Guesser } from './login-guesses.ts'
import { endSession, startSession } from './sessions.ts'

export interface LoginDeps {
  readonly database: Database
  readonly passwords: Passwords
}

export interface Credentials extends Guesser {
  readonly password: string
  /** What the browser had until now: it ends, so that nobody else's token lives on. */
  readonly token: string | undefined
}

/**
 * The token of the new session. Throws `Problem` `login_failed`, the same in the same time for an
 * unknown address, a wrong password and a deactivated user; `too_many_logins`.
 */
export async function logIn(
  { database, passwords }: LoginDeps,
  { password, token, ...guesser }: Credentials,
  now: Date,
): Promise<string> {
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
    await recordAudit(
      tx,
      { actor: actorOf(active, guesser.address), now },
      { accountId: active.account_id, action: 'user.logged_in', subjectId: active.id },
    )
    return startSession(tx, active, now)
  })
}

export function actorOf(user: Pick<UserRow, 'id' | 'email'>, address: string | undefined): Actor {
  return { type: 'user', id: user.id, label: user.email, address: address ?? null }
}

/** Written whether or not there is such a user, so that both take the same time. */
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
        // What was typed in place of an address may be a password.
        detail: user === undefined ? {} : { email: user.email },
      },
    ),
  )
}
