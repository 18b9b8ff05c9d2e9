/** A worker has a lease on a reminder while it hands the message over. */
import { leasesOf } from '../../background/leases.ts'
import type { Transaction } from '../../database/database.ts'
import { HAND_OVER_MS_MAX } from '../../mail/mail.ts'

export const REMINDER_LEASES = leasesOf({
  table: 'reminders',
  key: 'message_id',
  workMsMax: HAND_OVER_MS_MAX,
  // Rehearsals (`../rehearsal.ts`) of the same data must send the same messages in the same order, including messages
  // that are due at the same instant.
  sortsTiesByKey: true,
})

/** Sets the time of the message's next send check (null for none), and releases the lease. */
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
