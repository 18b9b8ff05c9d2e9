/** Changes the password of a user who is logged in and has entered the old password. */
import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { Transaction } from '../database/tables.ts'
import { recordNotice } from '../mail/notices.ts'
import { setPasswordHash } from '../users/users.ts'
import { lockUser } from './factors.ts'
import { endPasswordResets } from './password-reset.ts'
import { endSessionsOf, findSession, rotateSession, type Session } from './sessions.ts'

/**
 * Stores the new password, ends the user's other sessions, invalidates mailed links for password resets, and notifies
 * the user. Returns the session's new token. Throws `not_logged_in` if the session has been ended in the meantime, or
 * if a concurrent request has replaced its token.
 */
export async function changePassword(
  tx: Transaction,
  { user, account, ...session }: Session,
  passwordHash: string,
  actionContext: ActionContext,
): Promise<string> {
  const { now } = actionContext
  await lockUser(tx, user.id)
  // Hashing can take seconds. If the password was reset meanwhile, the reset has ended this session, and the password
  // that the reset has set must stay.
  if ((await findSession(tx, session.token, now)) === undefined) throw sessionEnded()
  await setPasswordHash(tx, user.id, passwordHash, now)
  await endPasswordResets(tx, user.id, now)
  await endSessionsOf(tx, user.id, session.token)
  await recordAudit(tx, actionContext, {
    accountId: account.id,
    action: 'user.password_changed',
    subjectId: user.id,
  })
  const notice = {
    accountId: account.id,
    kind: 'user.password_changed',
    subjectId: user.id,
  } as const
  await recordNotice(tx, { ...notice, detail: { email: user.email, in_settings: true } }, now)
  const token = await rotateSession(tx, { user, account, ...session })
  if (token === undefined) throw sessionEnded()
  return token
}

function sessionEnded(): Problem {
  return new Problem('not_logged_in', 'Your session was ended. Log in again.')
}
