/** Lets each Admin turn off notices, except those that protect the account. */
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { Reader, Transaction, UserRow } from '../database/tables.ts'
import type { NoticeKind } from './notices.ts'

/** Notices to Admins that each Admin can turn off. */
export const OPTIONAL_NOTICES = [
  'api_key.expiring',
  'api_key.issued',
  'webhook_endpoint.disabled',
  'message.received',
] as const satisfies readonly NoticeKind[]

/** Notices to Admins that no Admin can turn off. */
export const SECURITY_NOTICES = [
  'payment_details.changed',
  'second_factor.removed',
] as const satisfies readonly NoticeKind[]

export type OptionalNotice = (typeof OPTIONAL_NOTICES)[number]

/** Returns the optional notices that the user has not turned off. */
export async function readEnabledNotices(
  reader: Reader,
  userId: string,
): Promise<OptionalNotice[]> {
  const rows = await reader
    .selectFrom('muted_notices')
    .select('kind')
    .where('user_id', '=', userId)
    .execute()
  return OPTIONAL_NOTICES.filter((kind) => rows.every((row) => row.kind !== kind))
}

/** Turns on the optional notices in `enabled`, and turns off all others. */
export async function setEnabledNotices(
  tx: Transaction,
  { id: userId, account_id: accountId }: Pick<UserRow, 'id' | 'account_id'>,
  enabled: readonly OptionalNotice[],
  actionContext: ActionContext,
): Promise<void> {
  const enabledBefore = await readEnabledNotices(tx, userId)
  const muted = OPTIONAL_NOTICES.filter((kind) => !enabled.includes(kind))
  const isUnchanged = (kind: OptionalNotice) =>
    enabledBefore.includes(kind) === enabled.includes(kind)
  if (OPTIONAL_NOTICES.every(isUnchanged)) return
  await tx.deleteFrom('muted_notices').where('user_id', '=', userId).execute()
  if (muted.length > 0) {
    const created_at = actionContext.now.toISOString()
    await tx
      .insertInto('muted_notices')
      .values(muted.map((kind) => ({ account_id: accountId, user_id: userId, kind, created_at })))
      // Two concurrent requests may insert the same row.
      .onConflict((conflict) => conflict.doNothing())
      .execute()
  }
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'user.notices_changed',
    subjectId: userId,
    detail: { muted },
  })
}
