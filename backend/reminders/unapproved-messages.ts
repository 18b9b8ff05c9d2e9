/** Messages that await approval, which must change when the data or the settings that they depend on change. */
import { announce } from '../database/announcements.ts'
import type { Transaction } from '../database/database.ts'
import { REMINDERS_DUE } from '../messages/lifecycle.ts'

/**
 * Makes the messages that await approval due now, for one debtor or all debtors. The send check then cancels them, or
 * writes their texts again. The caller must have locked the debtor or the account; the send check locks both before it reads a text.
 */
export async function rescheduleUnapprovedMessages(
  tx: Transaction,
  accountId: string,
  now: Date,
  debtorId?: string,
): Promise<void> {
  const waiting = tx
    .updateTable('reminders')
    .set({ run_at: now.toISOString() })
    .where('account_id', '=', accountId)
    .where('run_at', '>', now.toISOString())
    .where('message_id', 'in', (select) =>
      select
        .selectFrom('messages')
        .select('id')
        .where('account_id', '=', accountId)
        .where('status', '=', 'awaiting_approval'),
    )
  await (debtorId === undefined ? waiting : waiting.where('debtor_id', '=', debtorId)).execute()
  announce(tx, REMINDERS_DUE)
}
