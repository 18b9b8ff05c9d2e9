/** Updates a message and its invoices after the message was sent. The caller must have locked the debtor. */

import { sql } from 'kysely'
import type { Transaction } from '../../database/database.ts'
import { stampOf } from '../../database/stamp.ts'
import type { InvoiceRow, MessageRow, ReminderRow } from '../../database/tables.ts'
import { changeMessage, timeOfSending } from '../../messages/lifecycle.ts'
import { loggedStage, readFacts } from '../planning/facts.ts'
import { stageAfter } from '../planning/ladder.ts'
import { setNextRun } from './leases.ts'

/** The next action of a paused invoice is the end of its pause, and remains. */
const CHASED_NOW = ['active'] as const

/** Chasing continues with the next stage after a pause, e.g. because of a dispute. */
const CHASED_LATER = ['active', 'paused'] as const

/** If a report of delivery has arrived, the message also becomes `delivered`. */
export async function markSent(
  tx: Transaction,
  message: MessageRow,
  reminder: ReminderRow,
  providerMessageId: string | null,
  now: Date,
): Promise<void> {
  const at = now.toISOString()
  await setNextRun(tx, message.id, null)
  const change = {
    status: 'sent',
    sent_at: timeOfSending(message, now),
    provider_message_id: providerMessageId,
  } as const
  const sent = await changeMessage(tx, message, change, null, now)
  if (sent.delivered_at !== null) await changeMessage(tx, sent, { status: 'delivered' }, null, now)
  const byStage = Map.groupBy(readFacts(reminder.facts).invoices, ({ stage }) => stage)
  for (const [stage, invoices] of byStage) {
    const ids = invoices.map(({ id }) => id)
    const shownStage = loggedStage(stage)
    await tx
      .updateTable('invoices')
      .set({
        ...(shownStage === null ? {} : { chasing_stage: shownStage }),
        // An earlier attempt may have a later time, if the clock was set back since.
        chasing_last_message_at: sql<string>`case
          when chasing_last_message_at > ${at} then chasing_last_message_at
          else ${at}
        end`,
        chasing_next_stage: ifChasing(
          CHASED_LATER,
          'chasing_next_stage',
          stageAfter(stage) ?? null,
        ),
        chasing_next_action_at: ifChasing(CHASED_NOW, 'chasing_next_action_at', null),
        chasing_blocked_reason: ifChasing(CHASED_NOW, 'chasing_blocked_reason', null),
        ...stampOf(tx, at),
      })
      .where('account_id', '=', message.account_id)
      .where('id', 'in', ids)
      .execute()
  }
}

/**
 * Sets the value only if the invoice still has one of the statuses of chasing: a payment, for example, may have paused or
 * stopped chasing meanwhile.
 */
function ifChasing<T extends string | null>(
  statuses: readonly InvoiceRow['chasing_status'][],
  column: string,
  value: T,
) {
  return sql<T>`case
    when status in ('open', 'partially_paid') and chasing_status in (${sql.join(statuses)}) then ${value}
    else ${sql.ref(column)}
  end`
}
