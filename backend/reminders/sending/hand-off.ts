/** Records the outcome of a hand-over, and advances the invoices. */

import { sql } from 'kysely'
import type { Transaction } from '../../database/database.ts'
import { stampOf } from '../../database/stamp.ts'
import type { MessageRow, ReminderRow } from '../../database/tables.ts'
import { lockDebtor, replanDebtor } from '../../debtors/debtors.ts'
import type { HandOff } from '../../mail/mail.ts'
import { moveMessage } from '../../messages/lifecycle.ts'
import { freeStages } from '../../messages/transitions.ts'
import { loggedStage, readFacts } from '../planning/facts.ts'
import { stageAfter } from '../planning/ladder.ts'
import { bounceMessage } from './bounces.ts'
import type { HandOver } from './gate.ts'
import { scheduleNextRun } from './leases.ts'
import { markOutcomeUnknown, recordAttempt, UNKNOWN_MAX } from './waiting-message.ts'

/** The delay after a failed hand-over: a minute, doubled each time, at most half an hour. */
const RETRY_MS = 60_000
const RETRY_MS_MAX = 30 * 60_000

/** Returns false if the lease has expired, since another worker may have the message by now. */
export async function recordHandOff(
  tx: Transaction,
  { messageId, lease }: Pick<HandOver, 'messageId' | 'lease'>,
  handOff: HandOff,
  now: Date,
  random: () => number = Math.random,
): Promise<boolean> {
  const held = await hold(tx, messageId, lease)
  if (held === undefined) return false
  const { message, reminder } = held
  switch (handOff.outcome) {
    case 'accepted':
      await markSent(tx, message, reminder, handOff.providerMessageId, now)
      break
    case 'refused': {
      const { type, code, detail } = handOff
      const bounced = await bounceMessage(tx, message, { type, code, detail }, now)
      if (bounced.status === 'bounced') await freeStages(tx, [messageId])
      break
    }
    case 'abandoned':
      await queueAgain(tx, message, reminder, handOff.detail, now, random)
      break
    case 'unknown':
      await markUnknown(tx, message, reminder, handOff.detail, now, random)
      break
  }
  await replanDebtor(tx, message.account_id, message.debtor_id, now)
  return true
}

async function hold(tx: Transaction, messageId: string, lease: string) {
  const found = await tx
    .selectFrom('reminders')
    .select(['account_id', 'debtor_id'])
    .where('message_id', '=', messageId)
    .executeTakeFirst()
  if (found === undefined) return undefined
  await lockDebtor(tx, found.account_id, found.debtor_id)
  const reminder = await tx
    .selectFrom('reminders')
    .selectAll()
    .where('message_id', '=', messageId)
    .where('lease', '=', lease)
    .executeTakeFirst()
  const message = await tx
    .selectFrom('messages')
    .selectAll()
    .where('id', '=', messageId)
    .where('status', '=', 'sending')
    .executeTakeFirst()
  return reminder === undefined || message === undefined ? undefined : { reminder, message }
}

async function markSent(
  tx: Transaction,
  message: MessageRow,
  reminder: ReminderRow,
  providerMessageId: string | null,
  now: Date,
): Promise<void> {
  const at = now.toISOString()
  await scheduleNextRun(tx, message.id, null)
  const change = { status: 'sent', sent_at: at, provider_message_id: providerMessageId } as const
  await moveMessage(tx, message, change, null, now)
  const byStage = Map.groupBy(readFacts(reminder.facts).invoices, ({ stage }) => stage)
  for (const [stage, invoices] of byStage) {
    const ids = invoices.map(({ id }) => id)
    const own = loggedStage(stage)
    await tx
      .updateTable('invoices')
      .set({
        ...(own === null ? {} : { chasing_stage: own }),
        chasing_last_message_at: at,
        chasing_next_stage: whereChased('chasing_next_stage', stageAfter(stage) ?? null),
        chasing_next_action_at: whereChased('chasing_next_action_at', null),
        chasing_blocked_reason: whereChased('chasing_blocked_reason', null),
        ...stampOf(tx, at),
      })
      .where('account_id', '=', message.account_id)
      .where('id', 'in', ids)
      .execute()
  }
}

/** Invoices that a person stopped or a payment settled meanwhile keep their state. */
function whereChased<T extends string | null>(column: string, value: T) {
  return sql<T>`case
    when status in ('open', 'partially_paid') and chasing_status = 'active' then ${value}
    else ${sql.ref(column)}
  end`
}

async function queueAgain(
  tx: Transaction,
  message: MessageRow,
  reminder: ReminderRow,
  detail: string,
  now: Date,
  random: () => number,
): Promise<void> {
  const ms = Math.min(RETRY_MS * 2 ** Math.min(reminder.attempts - 1, 10), RETRY_MS_MAX)
  // Jitter, so that retries do not coincide.
  const at = new Date(now.getTime() + ms * (0.75 + random() / 2)).toISOString()
  await scheduleNextRun(tx, message.id, at)
  await moveMessage(tx, message, { status: 'queued', scheduled_for: at }, detail, now)
}

async function markUnknown(
  tx: Transaction,
  message: MessageRow,
  reminder: ReminderRow,
  detail: string,
  now: Date,
  random: () => number,
): Promise<void> {
  const unknown_outcomes = reminder.unknown_outcomes + 1
  await tx
    .updateTable('reminders')
    .set({ unknown_outcomes })
    .where('message_id', '=', message.id)
    .execute()
  await recordAttempt(tx, message, readFacts(reminder.facts), now)
  if (unknown_outcomes >= UNKNOWN_MAX) await markOutcomeUnknown(tx, message, now)
  else await queueAgain(tx, message, reminder, detail, now, random)
}
