import { sql } from 'kysely'
import type { Transaction } from '../../database/database.ts'
import { nextRevision } from '../../database/revision.ts'
import type { InvoiceRow, MessageRow, ReminderRow } from '../../database/tables.ts'
import { changeMessage, timeOfSending } from '../../messages/lifecycle.ts'
import { publicStage, readFacts } from '../planning/facts.ts'
import { stageAfter } from '../planning/ladder.ts'
import { setNextRun } from './leases.ts'

/**
 * The next action and the blocked reason change only if chasing is active. During a pause, the two columns contain the
 * end of the pause and its reason.
 */
const ACTIVE = ['active'] as const

/** The next stage changes even if chasing is paused, because chasing continues with this stage after the pause. */
const ACTIVE_OR_PAUSED = ['active', 'paused'] as const

/**
 * Marks the message as sent, and as delivered if the report of its delivery has arrived already. For each of its
 * invoices, stores the stage that was sent and the stage that follows. The caller must have locked the debtor.
 */
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
    // A report may have shown during the hand-over that the message was sent.
    sent_at: message.sent_at ?? timeOfSending(message, now),
    provider_message_id: providerMessageId,
  } as const
  const sent = await changeMessage(tx, message, change, null, now)
  const { delivered_at } = sent
  if (delivered_at !== null) {
    await changeMessage(tx, sent, { status: 'delivered', delivered_at }, null, now)
  }
  const byStage = Map.groupBy(readFacts(reminder.facts).invoices, ({ stage }) => stage)
  for (const [stage, invoices] of byStage) {
    const ids = invoices.map(({ id }) => id)
    // Null for a courtesy reminder, which does not change the stage that the invoice shows.
    const shownStage = publicStage(stage)
    await tx
      .updateTable('invoices')
      .set({
        ...(shownStage === null ? {} : { chasing_stage: shownStage }),
        // The stored time is later than now if the clock was set back after it was stored.
        chasing_last_message_at: sql<string>`case
          when chasing_last_message_at > ${at} then chasing_last_message_at
          else ${at}
        end`,
        chasing_next_stage: ifUnpaidAndChasing(
          ACTIVE_OR_PAUSED,
          'chasing_next_stage',
          stageAfter(stage) ?? null,
        ),
        chasing_next_action_at: ifUnpaidAndChasing(ACTIVE, 'chasing_next_action_at', null),
        chasing_blocked_reason: ifUnpaidAndChasing(ACTIVE, 'chasing_blocked_reason', null),
        ...nextRevision(tx, at),
      })
      .where('account_id', '=', message.account_id)
      .where('id', 'in', ids)
      .execute()
  }
}

/**
 * Returns SQL for the new value of the column: `value` if the invoice is unpaid and its chasing has one of `statuses`;
 * otherwise the present value, because a payment may have arrived since the hand-over began.
 */
function ifUnpaidAndChasing<T extends string | null>(
  statuses: readonly InvoiceRow['chasing_status'][],
  column: string,
  value: T,
) {
  return sql<T>`case
    when status in ('open', 'partially_paid') and chasing_status in (${sql.join(statuses)}) then ${value}
    else ${sql.ref(column)}
  end`
}
