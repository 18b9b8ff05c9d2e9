/**
 * Resets a forgotten password through a mailed link. A worker looks up the user, and the response to the request does
 * not wait for this worker: otherwise, the response time would reveal whether a user has the address. The link works
 * once, within 30 minutes. The code in the link is derived from the request's id and a secret key (`MailedCodes`); only
 * the code's hash is stored.
 */

import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import {
  POLL_MS,
  startListeningWorker,
  type Worker,
  type WorkerDeps,
} from '../background/worker.ts'
import { announce } from '../database/announcements.ts'
import type { Database } from '../database/database.ts'
import type { PasswordResetRow, Reader, Transaction, UserRow } from '../database/tables.ts'
import { recordNotice } from '../mail/notices.ts'
import type { MailedCodes } from '../users/mailed-codes.ts'
import { hashToken } from '../users/tokens.ts'
import { findUserByEmail, setPasswordHash } from '../users/users.ts'
import { lockUser } from './factors.ts'
import { endSessionsOf } from './sessions.ts'

const LIFETIME_MS = 30 * 60_000
/**
 * How many valid links a user can have. The limit of requests (ten in 15 minutes for each e-mail address and for each
 * IP address) would still let anyone fill the mailbox of a user.
 */
const LINKS_MAX = 3
/** A transaction that records a request announces this topic, so that the worker mails the link at once. */
const PASSWORD_RESETS = 'password_resets'
const BATCH_MAX = 50

/**
 * `email` is the address as the user entered it. It is stored in lower case, but not converted by `normalizeEmail`:
 * the addresses of users of early versions were not converted either, and `findUserByEmail` must find these users.
 */
export async function requestPasswordReset(
  tx: Transaction,
  email: string,
  codes: MailedCodes,
  now: Date,
): Promise<void> {
  const id = createId('pwr')
  await tx
    .insertInto('password_resets')
    .values({
      id,
      email: email.trim().toLowerCase(),
      user_id: null,
      code_hash: hashToken(codes.codeOf(id)),
      created_at: now.toISOString(),
      expires_at: new Date(now.getTime() + LIFETIME_MS).toISOString(),
      handled_at: null,
      ended_at: null,
    })
    .execute()
  announce(tx, PASSWORD_RESETS)
}

export function startPasswordResets({ database, clock, log }: WorkerDeps): Worker {
  return startListeningWorker({
    name: 'mailing links for password resets',
    database,
    topic: PASSWORD_RESETS,
    everyMs: POLL_MS,
    log,
    async round() {
      const count = await handlePasswordResets(database, clock())
      // After a full batch, the next round begins immediately.
      return count === BATCH_MAX ? 0 : undefined
    },
  })
}

/**
 * Processes up to `BATCH_MAX` requests, and returns their number. Queues mails for the requests of active users who
 * have fewer than `LINKS_MAX` valid links, and deletes the other requests.
 */
export async function handlePasswordResets(database: Database, now: Date): Promise<number> {
  const rows = await database.read
    .selectFrom('password_resets')
    .select('id')
    .where('handled_at', 'is', null)
    .orderBy('created_at')
    .limit(BATCH_MAX)
    .execute()
  for (const { id } of rows) await database.transaction((tx) => handleRequest(tx, id, now))
  return rows.length
}

async function handleRequest(tx: Transaction, id: string, now: Date): Promise<void> {
  const row = await tx
    .selectFrom('password_resets')
    .selectAll()
    .where('id', '=', id)
    .where('handled_at', 'is', null)
    .forNoKeyUpdate()
    .executeTakeFirst()
  if (row === undefined) return
  const user = await findUserByEmail(tx, row.email)
  if (user?.status !== 'active' || (await countLinks(tx, user.id, now)) >= LINKS_MAX) {
    // The row is deleted, because its `email` may be a password that was typed into the wrong field.
    await tx.deleteFrom('password_resets').where('id', '=', id).execute()
    return
  }
  await tx
    .updateTable('password_resets')
    .set({ user_id: user.id, handled_at: now.toISOString() })
    .where('id', '=', id)
    .execute()
  const notice = { accountId: user.account_id, kind: 'user.password_reset', subjectId: id } as const
  await recordNotice(tx, { ...notice, detail: { email: user.email } }, now)
}

async function countLinks(reader: Reader, userId: string, now: Date): Promise<number> {
  const rows = await reader
    .selectFrom('password_resets')
    .select('id')
    .where('user_id', '=', userId)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', now.toISOString())
    .execute()
  return rows.length
}

/**
 * Throws `invalid_password_reset` if the code is unknown, expired or no longer valid (this link or another one was
 * used, or the password was changed), or if its user is not active.
 */
export async function getPasswordReset(
  reader: Reader,
  codeHash: string,
  now: Date,
): Promise<{ readonly reset: PasswordResetRow; readonly user: UserRow }> {
  const reset = await reader
    .selectFrom('password_resets')
    .selectAll()
    .where('code_hash', '=', codeHash)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', now.toISOString())
    .executeTakeFirst()
  const user =
    reset?.user_id == null
      ? undefined
      : await reader
          .selectFrom('users')
          .selectAll()
          .where('id', '=', reset.user_id)
          .where('status', '=', 'active')
          .executeTakeFirst()
  if (reset !== undefined && user !== undefined) return { reset, user }
  throw new Problem(
    'invalid_password_reset',
    'This link is not valid, or no longer valid: a link works once, within 30 minutes, and only until the password is changed in another way. Request a new link.',
  )
}

/**
 * Sets the user's new password, ends all of the user's sessions, and invalidates all of the user's links for password
 * resets. Throws the same problem as `getPasswordReset`.
 */
export async function resetPassword(
  tx: Transaction,
  codeHash: string,
  passwordHash: string,
  { actor, now }: ActionContext,
): Promise<UserRow> {
  const { user: found } = await getPasswordReset(tx, codeHash, now)
  // The link is checked again after the user is locked. Otherwise, two concurrent requests with one link would set two
  // passwords.
  await lockUser(tx, found.id)
  const { reset, user } = await getPasswordReset(tx, codeHash, now)
  await endPasswordResets(tx, user.id, now)
  await setPasswordHash(tx, user.id, passwordHash, now)
  await endSessionsOf(tx, user.id)
  const actionContext = { actor: { ...actor, id: user.id, label: user.email }, now }
  await recordAudit(tx, actionContext, {
    accountId: user.account_id,
    action: 'user.password_reset',
    subjectId: user.id,
  })
  const notice = { accountId: user.account_id, kind: 'user.password_changed' } as const
  await recordNotice(tx, { ...notice, subjectId: reset.id, detail: { email: user.email } }, now)
  return user
}

/** Invalidates all links of a user for password resets. */
export async function endPasswordResets(tx: Transaction, userId: string, now: Date): Promise<void> {
  await tx
    .updateTable('password_resets')
    .set({ ended_at: now.toISOString() })
    .where('user_id', '=', userId)
    .where('ended_at', 'is', null)
    .execute()
}
