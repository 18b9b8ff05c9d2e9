/**
 * Records wrong codes in the second step of a login, and notifies the user by mail if there are several within 24
 * hours. Only a person who has entered the right password reaches the second step. So if the user did not enter these
 * codes, another person knows the password, and could find the right code in months of guessing.
 */
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { Transaction, UserRow } from '../database/tables.ts'
import { countRecentNotices, recordNotice } from '../mail/notices.ts'

const DAY_MS = 86_400_000

/** Fewer wrong codes within 24 hours are probably typing errors of the user. */
const WRONG_CODES_MIN = 5

/** The caller must have locked the user: otherwise, two concurrent requests could cause two mails. */
export async function recordWrongCode(
  tx: Transaction,
  { id: subjectId, account_id: accountId, email }: UserRow,
  actionContext: ActionContext,
): Promise<void> {
  const { actor, now } = actionContext
  const action = 'user.second_factor_failed'
  await recordAudit(tx, actionContext, { accountId, action, subjectId })
  const wrong = await tx
    .selectFrom('audit_log')
    .select('id')
    .where('account_id', '=', accountId)
    .where('subject_id', '=', subjectId)
    .where('action', '=', action)
    .where('created_at', '>', new Date(now.getTime() - DAY_MS).toISOString())
    .limit(WRONG_CODES_MIN)
    .execute()
  if (wrong.length < WRONG_CODES_MIN) return
  const notice = { accountId, kind: 'user.wrong_codes', subjectId } as const
  if ((await countRecentNotices(tx, notice, now)) > 0) return
  await recordNotice(tx, { ...notice, detail: { email, address: actor.address } }, now)
}
