/**
 * Changes the status of messages. Each change is added to the message's history and, if an event type exists for the
 * new status, recorded as an event. The caller must have locked the debtor.
 */

import type { Transaction } from '../database/database.ts'
import { nextRevision } from '../database/revision.ts'
import type { MessageRow, MessageStatus } from '../database/tables.ts'
import { type DomainEvent, recordEvent } from '../events/events.ts'
import { readInvoiceIdsByMessage } from './messages.ts'
import { representMessage } from './representation.ts'
import { recordTransitions } from './transitions.ts'

/** A transaction announces this topic if it may make a reminder due earlier than the worker expects. */
export const REMINDER_TIMES_CHANGED = 'reminders'

export type MessageChange = Partial<
  Omit<MessageRow, 'id' | 'account_id' | 'debtor_id' | 'updated_at' | 'revision'>
> &
  Pick<MessageRow, 'status'>

const EVENT_TYPES: Partial<Record<MessageStatus, DomainEvent['type']>> = {
  awaiting_approval: 'message.awaiting_approval',
  sent: 'message.sent',
  delivered: 'message.delivered',
  bounced: 'message.bounced',
  suppressed: 'message.suppressed',
  received: 'message.received',
}

/**
 * Returns the value of `sent_at` for a message that is sent now: the present time or, if the clock was set back after
 * the message was created, the time of its creation.
 */
export function timeOfSending({ created_at }: MessageRow, now: Date): string {
  const at = now.toISOString()
  return at < created_at ? created_at : at
}

/** Returns the changed message. `detail` is the reason for the change; the message's history shows it. */
export async function changeMessage(
  tx: Transaction,
  message: MessageRow,
  change: MessageChange,
  detail: string | null,
  now: Date,
): Promise<MessageRow> {
  const revised = await tx
    .updateTable('messages')
    .set({ ...change, ...nextRevision(tx, now.toISOString()) })
    .where('account_id', '=', message.account_id)
    .where('id', '=', message.id)
    .returning(['updated_at', 'revision'])
    .executeTakeFirstOrThrow()
  const changed = { ...message, ...change, ...revised }
  await recordTransitions(tx, [changed], detail, now)
  await recordMessageEvent(tx, changed, now, message)
  return changed
}

/**
 * Records the event that reports the message's state, if there is one. `before` is the message before the change;
 * absent for the first event about a message.
 */
export async function recordMessageEvent(
  tx: Transaction,
  message: MessageRow,
  now: Date,
  before?: MessageRow,
): Promise<void> {
  const type = EVENT_TYPES[message.status]
  if (type === undefined) return
  const { id, account_id: accountId } = message
  const represent = async (row: MessageRow) => {
    const invoiceIds = await readInvoiceIdsByMessage(tx, accountId, [id])
    return representMessage(row, invoiceIds.get(id) ?? [])
  }
  const previous = before === undefined ? {} : { representBefore: () => represent(before) }
  const event = { accountId, type, subjectId: id, represent: () => represent(message), ...previous }
  await recordEvent(tx, event, now)
}
