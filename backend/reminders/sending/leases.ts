/** The leases of reminders, for the time of their hand-over to the mail server. */
import { leasesOf } from '../../background/leases.ts'
import type { Transaction } from '../../database/database.ts'
import { HAND_OFF_MS_MAX } from '../../mail/mail.ts'

/** The hand-over starts within this time, or not at all. */
export const START_MS_MAX = 5000

export const REMINDERS = leasesOf({
  table: 'reminders',
  key: 'message_id',
  leaseMs: START_MS_MAX + HAND_OFF_MS_MAX + 30_000,
  // A rehearsal always sends in the same order.
  isOrdered: true,
})

/** Schedules when the message passes the gate again, and drops its lease; null: never. */
export async function scheduleNextRun(
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
