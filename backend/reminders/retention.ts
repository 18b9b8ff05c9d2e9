/**
 * What a message was planned for is kept while servers may still say what became of it, which is far
 * shorter. The message stays, with its log and the stages that it took.
 */

import { BATCH_MAX, DAY_MS, type Forgetting, type Key } from '../database/forgetting.ts'
import type { Reader, Transaction } from '../database/tables.ts'

const KEPT_MS = 90 * DAY_MS

export const FORGETTING_REMINDERS: Forgetting = {
  what: 'plans of reminders',
  find: findDecided,
  forget: forgetDecided,
}

async function findDecided(read: Reader, now: Date): Promise<readonly Key[]> {
  return await read
    .selectFrom('reminders')
    .select('message_id')
    .where('planned_at', '<', new Date(now.getTime() - KEPT_MS).toISOString())
    .where('run_at', 'is', null)
    .limit(BATCH_MAX)
    .execute()
}

async function forgetDecided(tx: Transaction, keys: readonly Key[]): Promise<void> {
  const ids = keys.map(({ message_id }) => String(message_id))
  // One that came back meanwhile is tried again.
  await tx
    .deleteFrom('reminders')
    .where('message_id', 'in', ids)
    .where('run_at', 'is', null)
    .execute()
}
