/** Leases on reminders. A worker has a lease on a reminder while it hands the message over to the mail server. */
import { leasesOf } from '../../background/leases.ts'
import type { Transaction } from '../../database/database.ts'
import { HAND_OVER_MS_MAX } from '../../mail/mail.ts'

export const REMINDER_LEASES = leasesOf({
  table: 'reminders',
  key: 'message_id',
  workMsMax: HAND_OVER_MS_MAX,
  // Reminders that are due at the same time have a fixed order, so that each rehearsal (`../rehearsal.ts`) of the same
  // data sends the same messages in the same order.
  sortsTiesByKey: true,
})

/** Sets the time of the next send check of the message (null for no check), and releases its lease. */
export async function setNextRun(
  tx: Transaction,
  messageId: string,
  at: string | null,
): Promise<void> {
  await tx
    .updateTable('reminders')
    .set({ run_at: at, lease: null })
    .where('message_id', '=', messageId)
    .execute()
}
