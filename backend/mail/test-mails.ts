/** A test mail is a notice that shows a user a reminder as a customer would receive it. */
import { Problem } from '../../shared/contract/problem.ts'
import { lockAccount } from '../accounts/accounts.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { Transaction, UserRow } from '../database/tables.ts'
import { recordNotice } from './notices.ts'
import type { Sample } from './wording/sample-reminder.ts'

/** How many test mails a user may send within `WINDOW_MS`. */
const TEST_MAILS_MAX = 10
const WINDOW_MS = 3_600_000

/** Throws `too_many_test_mails`. The caller must have checked the wording. */
export async function recordTestMail(
  tx: Transaction,
  { id: userId, account_id: accountId, email }: Pick<UserRow, 'id' | 'account_id' | 'email'>,
  sample: Sample,
  actionContext: ActionContext,
): Promise<void> {
  // Serializes concurrent requests, so that the limit is exact.
  await lockAccount(tx, accountId)
  const since = new Date(actionContext.now.getTime() - WINDOW_MS).toISOString()
  const sent = await tx
    .selectFrom('notices')
    .select('created_at')
    .where('account_id', '=', accountId)
    .where('kind', '=', 'user.test_reminder')
    .where('subject_id', '=', userId)
    .where('created_at', '>', since)
    .orderBy('created_at')
    .execute()
  const [oldest] = sent
  if (oldest !== undefined && sent.length >= TEST_MAILS_MAX) {
    const waitMs = Date.parse(oldest.created_at) + WINDOW_MS - actionContext.now.getTime()
    throw new Problem(
      'too_many_test_mails',
      `You have sent ${TEST_MAILS_MAX} test mails within an hour. Try again later.`,
      { headers: { 'retry-after': String(Math.ceil(waitMs / 1000)) } },
    )
  }
  const { stage, language, wording, invoiceId } = sample
  const detail = { email, stage, language, wording, invoice_id: invoiceId }
  await recordNotice(
    tx,
    { accountId, kind: 'user.test_reminder', subjectId: userId, detail },
    actionContext.now,
  )
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'account.test_reminder_sent',
    subjectId: accountId,
    detail: { stage, language, to: email },
  })
}
