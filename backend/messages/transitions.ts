/** The append-only log of message states. A message that the recipient did not receive frees its stages. */
import { createId } from '../../shared/contract/id.ts'
import type { Transaction } from '../database/database.ts'
import type { MessageRow, MessageStatus } from '../database/tables.ts'

/** Statuses of messages that the recipient did not receive. */
const NOT_RECEIVED: readonly MessageStatus[] = ['cancelled', 'suppressed', 'bounced']

/** Logs the current state of messages, whose rows the caller has already updated. */
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
  const freed = messages.filter(({ status }) => NOT_RECEIVED.includes(status)).map(({ id }) => id)
  if (freed.length > 0) await freeStages(tx, freed)
}

/**
 * Frees the stages that the messages have reached for their invoices, so that other messages can use them. A
 * message that may have been sent keeps its stages, so that no debtor receives a stage twice.
 */
export async function freeStages(tx: Transaction, messageIds: readonly string[]): Promise<void> {
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
