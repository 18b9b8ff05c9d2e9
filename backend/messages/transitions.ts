/**
 * Logs the statuses of messages, and frees the stages of messages that end without a delivery.
 * In each chasing cycle of an invoice, a stage such as `firm` can be used by one message only (see `TakenStageRow`). If
 * the outcome of an attempt to hand a message over is unknown, the message may have arrived, so it keeps its stages.
 */
import { createId } from '../../shared/contract/id.ts'
import type { Transaction } from '../database/database.ts'
import type { MessageRow, MessageStatus } from '../database/tables.ts'

/**
 * Final statuses of messages that were not sent, or that bounced. `failed` is final too, but means that it is unknown
 * whether the message arrived.
 */
const ENDED_WITHOUT_DELIVERY: readonly MessageStatus[] = ['cancelled', 'suppressed', 'bounced']

/**
 * Logs the current status of the messages. For messages that have ended without a delivery, also calls
 * `stopProcessing`. The caller must have updated the rows of the messages.
 */
export async function recordTransitions(
  tx: Transaction,
  messages: readonly Pick<MessageRow, 'id' | 'account_id' | 'status'>[],
  detail: string | null,
  now: Date,
): Promise<void> {
  if (messages.length === 0) return
  const created_at = now.toISOString()
  await tx
    .insertInto('message_transitions')
    .values(
      messages.map(({ id, account_id, status }) => ({
        message_id: id,
        id: createId('mtr'),
        account_id,
        status,
        detail,
        created_at,
      })),
    )
    .execute()
  const undelivered = messages.filter(({ status }) => ENDED_WITHOUT_DELIVERY.includes(status))
  if (undelivered.length > 0) {
    const ids = undelivered.map(({ id }) => id)
    await stopProcessing(tx, ids)
  }
}

/**
 * Releases the leases of the messages, so that no worker processes them again. Frees their stages, unless the outcome
 * of an attempt is unknown.
 */
async function stopProcessing(tx: Transaction, messageIds: readonly string[]): Promise<void> {
  await tx
    .updateTable('reminders')
    .set({ run_at: null, lease: null })
    .where('message_id', 'in', messageIds)
    .execute()
  await tx
    .deleteFrom('taken_stages')
    .where('message_id', 'in', messageIds)
    .where('message_id', 'not in', (eb) =>
      eb
        .selectFrom('reminders')
        .select('message_id')
        .where('message_id', 'in', messageIds)
        .where('unknown_outcomes', '>', 0),
    )
    .execute()
}
