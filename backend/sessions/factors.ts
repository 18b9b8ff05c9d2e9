/** Functions for both kinds of second factors: passkeys and the authenticator app. */
import { type ActionContext, type AuditAction, recordAudit } from '../accounts/audit.ts'
import type { Reader, Transaction, UserRow } from '../database/tables.ts'
import { noticeActorOf, recordNotice } from '../mail/notices.ts'

/** A passkey or the authenticator app. The name of the app is null. */
export interface Factor {
  readonly kind: 'app' | 'passkey'
  readonly name: string | null
}

export const APP: Factor = { kind: 'app', name: null }

export async function lockUser(tx: Transaction, id: string): Promise<UserRow> {
  return await tx
    .selectFrom('users')
    .selectAll()
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
}

export async function hasSecondFactor(
  reader: Reader,
  user: Pick<UserRow, 'id' | 'totp_enabled_at'>,
): Promise<boolean> {
  return user.totp_enabled_at !== null || (await hasPasskey(reader, user.id))
}

export async function hasPasskey(reader: Reader, userId: string): Promise<boolean> {
  const passkey = await reader
    .selectFrom('passkeys')
    .select('id')
    .where('user_id', '=', userId)
    .limit(1)
    .executeTakeFirst()
  return passkey !== undefined
}

/** `name` is the name of the passkey; null if the action concerns no passkey. */
export async function recordFactorAction(
  tx: Transaction,
  user: UserRow,
  action: AuditAction,
  name: string | null,
  actionContext: ActionContext,
): Promise<void> {
  await recordAudit(tx, actionContext, {
    accountId: user.account_id,
    action,
    subjectId: user.id,
    detail: { email: user.email, ...(name === null ? {} : { name }) },
  })
}

export async function notifyOfAddedFactor(
  tx: Transaction,
  user: UserRow,
  factor: Factor,
  actionContext: ActionContext,
): Promise<void> {
  await notifyUser(tx, user, 'user.second_factor_added', factor, actionContext)
}

/**
 * Notifies the user. If the password alone is now enough to log in, Admins are notified too, except this user and the
 * Admin who removed the factor. Must be called after the removal, and `user` must be the new row: a row with
 * `totp_enabled_at` counts as having the app.
 */
export async function notifyOfRemovedFactor(
  tx: Transaction,
  user: UserRow,
  factor: Factor,
  actionContext: ActionContext,
): Promise<void> {
  await notifyUser(tx, user, 'user.second_factor_removed', factor, actionContext)
  if (await hasSecondFactor(tx, user)) return
  const { account_id: accountId, email, id: subjectId } = user
  const detail = { email, by: noticeActorOf(actionContext) }
  await recordNotice(
    tx,
    { accountId, kind: 'second_factor.removed', subjectId, detail },
    actionContext.now,
  )
}

async function notifyUser(
  tx: Transaction,
  { account_id: accountId, id: subjectId, email }: UserRow,
  kind: 'user.second_factor_added' | 'user.second_factor_removed',
  { kind: factor, name }: Factor,
  actionContext: ActionContext,
): Promise<void> {
  const detail = { email, factor, name, by: noticeActorOf(actionContext) }
  await recordNotice(tx, { accountId, kind, subjectId, detail }, actionContext.now)
}
