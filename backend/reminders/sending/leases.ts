/** Leases on reminders. A worker has a lease on a reminder while it hands the message over to the mail server. */
import { leasesOf } from '../../background/leases.ts'
import type { Transaction } from '../../database/database.ts'
import { HAND_OVER_MS_MAX } from '../../mail/mail.ts'

/** A hand-over starts within this time after the worker has acquired the lease, or not at all. */
export const START_MS_MAX = 5000

/** The time for recording the result of a hand-over, and for differences between clocks. */
const LEASE_MARGIN_MS = 30_000

export const REMINDER_LEASES = leasesOf({
  table: 'reminders',
  key: 'message_id',
  leaseMs: START_MS_MAX + HAND_OVER_MS_MAX + LEASE_MARGIN_MS,
  // A rehearsal plans and sends reminders as of a given date (`../rehearsal.ts`). With an order, each rehearsal of the
  // same data sends the same messages in the same order.
  isOrdered: true,
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
