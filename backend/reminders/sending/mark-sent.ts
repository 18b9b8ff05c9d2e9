/** Updates a message and its invoices after the message was sent. The caller must have locked the debtor. */

import { sql } from 'kysely'
import type { Transaction } from '../../database/database.ts'
import { stampOf } from '../../database/stamp.ts'
import type { MessageRow, ReminderRow } from '../../database/tables.ts'
import { changeMessage } from '../../messages/lifecycle.ts'
import { loggedStage, readFacts } from '../planning/facts.ts'
import { stageAfter } from '../planning/ladder.ts'
import { setNextRun } from './leases.ts'

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
  const change = { status: 'sent', sent_at: at, provider_message_id: providerMessageId } as const
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
        chasing_next_stage: ifChased('chasing_next_stage', stageAfter(stage) ?? null),
        chasing_next_action_at: ifChased('chasing_next_action_at', null),
        chasing_blocked_reason: ifChased('chasing_blocked_reason', null),
        ...stampOf(tx, at),
      })
      .where('account_id', '=', message.account_id)
      .where('id', 'in', ids)
      .execute()
  }
}

/** Sets the value only if the invoice is still chased: a payment, for example, may have stopped chasing meanwhile. */
function ifChased<T extends string | null>(column: string, value: T) {
  return sql<T>`case
    when status in ('open', 'partially_paid') and chasing_status = 'active' then ${value}
    else ${sql.ref(column)}
  end`
}
