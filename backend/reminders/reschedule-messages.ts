/**
 * Makes waiting messages due now, after a change of data on which they depend. The caller must have locked the debtor
 * or the account. The send check locks both, so it either decides before the change or uses the changed data.
 */
import { announce } from '../database/announcements.ts'
import type { Transaction } from '../database/database.ts'
import type { MessageStatus } from '../database/tables.ts'
import { REMINDER_TIMES_CHANGED } from '../messages/lifecycle.ts'

/**
 * Reschedules the debtor's messages that await approval; without `debtorId`, those of all debtors of the account. The
 * send check then writes the text of each message again, or cancels or suppresses the message.
 */
export function rescheduleUnapprovedMessages(
  tx: Transaction,
  accountId: string,
  now: Date,
  debtorId?: string,
): Promise<void> {
  return reschedule(tx, accountId, ['awaiting_approval'], now, debtorId)
}

/**
 * Reschedules the debtor's messages that only wait for the time of sending; without `debtorId`, those of all debtors of
 * the account. The send check then decides again whether and when they are sent.
 */
export function rescheduleMessagesReadyToSend(
  tx: Transaction,
  accountId: string,
  now: Date,
  debtorId?: string,
): Promise<void> {
  return reschedule(tx, accountId, ['scheduled', 'approved'], now, debtorId)
}

async function reschedule(
  tx: Transaction,
  accountId: string,
  statuses: readonly MessageStatus[],
  now: Date,
  debtorId: string | undefined,
): Promise<void> {
  const update = tx
    .updateTable('reminders')
    .set({ run_at: now.toISOString() })
    .where('account_id', '=', accountId)
    .where('run_at', '>', now.toISOString())
    .where('message_id', 'in', (select) =>
      select
        .selectFrom('messages')
        .select('id')
        .where('account_id', '=', accountId)
        .where('status', 'in', statuses),
    )
  await (debtorId === undefined ? update : update.where('debtor_id', '=', debtorId)).execute()
  announce(tx, REMINDER_TIMES_CHANGED)
}
