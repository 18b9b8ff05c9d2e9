/**
 * Deletes the rows of `reminders` (the plans of messages) 90 days after planning, unless the message is still to be
 * processed (`run_at`). After 90 days, mail servers have normally reported all outcomes. The message, its history and
 * its rows of `taken_stages` are kept.
 */

import {
  BATCH_MAX,
  DAY_MS,
  type RetentionRule,
  type RowKey,
  startOfNextBatch,
} from '../database/retention-rule.ts'
import type { Reader, Transaction } from '../database/tables.ts'

const KEPT_MS = 90 * DAY_MS

export const REMINDER_RETENTION: RetentionRule = {
  name: 'plans of reminders',
  findExpired: findFinished,
  applyTo: deleteFinished,
}

async function findFinished(read: Reader, now: Date, last?: RowKey): Promise<readonly RowKey[]> {
  return await read
    .selectFrom('reminders')
    .select(['message_id', 'planned_at'])
    .where('planned_at', '<', new Date(now.getTime() - KEPT_MS).toISOString())
    .where('planned_at', '>=', startOfNextBatch(last, 'planned_at'))
    .where('run_at', 'is', null)
    .orderBy('planned_at')
    .limit(BATCH_MAX)
    .execute()
}

async function deleteFinished(tx: Transaction, keys: readonly RowKey[]): Promise<void> {
  const ids = keys.map(({ message_id }) => String(message_id))
  // If a mail server has reported a transient error since the selection, the message will be sent again, so its plan
  // is kept.
  await tx
    .deleteFrom('reminders')
    .where('message_id', 'in', ids)
    .where('run_at', 'is', null)
    .execute()
}
