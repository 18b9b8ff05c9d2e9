import type { Transaction } from '../../database/database.ts'
import type { MessageRow, ReminderRow } from '../../database/tables.ts'
import { lockDebtor, replanDebtor } from '../../debtors/debtors.ts'
import type { HandOverResult } from '../../mail/mail.ts'
import { changeMessage } from '../../messages/lifecycle.ts'
import { readFacts } from '../planning/facts.ts'
import { bounceMessage } from './bounces.ts'
import { setNextRun } from './leases.ts'
import { markSent } from './mark-sent.ts'
import type { HandOver } from './send-check.ts'
import {
  markOutcomeUnknown,
  recordPossibleArrival,
  UNKNOWN_OUTCOMES_MAX,
} from './waiting-message.ts'

/**
 * The delay before the first retry of a failed hand-over. It doubles with each later retry, up to half an hour. Each
 * delay is changed by up to a quarter at random, so that many retries do not coincide.
 */
const RETRY_MS = 60_000
const RETRY_MS_MAX = 30 * 60_000

/**
 * Returns false if nothing was recorded, because the worker no longer has the lease (another worker may have claimed
 * the message), or because a bounce arrived first. If a report that the message was accepted arrived first, the
 * message is marked as sent even if the hand-over has another result (see `isProvenByReport`). If the debtor was erased
 * meanwhile, nothing personal is recorded.
 */
export async function recordHandOverResult(
  tx: Transaction,
  { messageId, lease }: Pick<HandOver, 'messageId' | 'lease'>,
  result: HandOverResult,
  now: Date,
): Promise<boolean> {
  const locked = await lockSendingMessage(tx, messageId, lease)
  if (locked === undefined) return false
  const { message, reminder } = locked
  if (isProvenByReport(message, result)) await markSent(tx, message, reminder, null, now)
  else await applyResult(tx, locked, result, now)
  await replanDebtor(tx, message.account_id, message.debtor_id, now)
  return true
}

async function applyResult(
  tx: Transaction,
  { message, reminder, isErased }: SendingMessage,
  result: HandOverResult,
  now: Date,
): Promise<void> {
  // The mail server's reply often contains the recipient's address.
  const detail = isErased || result.outcome === 'accepted' ? null : result.detail
  switch (result.outcome) {
    case 'accepted':
      await markSent(tx, message, reminder, result.providerMessageId, now)
      break
    case 'refused': {
      const { type, code } = result
      await bounceMessage(tx, message, { type, code, detail }, now)
      break
    }
    case 'abandoned':
      await scheduleRetry(tx, message, reminder, detail, now)
      break
    case 'unknown':
      await handleUnknownOutcome(tx, message, reminder, detail, now)
      break
  }
}

/**
 * Whether a report shows that the mail server has accepted the message, so that it must not be sent again, although the
 * result of this hand-over does not show this.
 */
function isProvenByReport(
  { delivered_at, sent_at, soft_bounces }: MessageRow,
  result: HandOverResult,
): boolean {
  const isReported = (delivered_at ?? sent_at) !== null
  if (!isReported || result.outcome === 'accepted') return false
  if (result.outcome === 'unknown') return true
  // A permanent rejection also prevents another attempt, and suppresses the address. After a soft bounce, the report
  // may be about the attempt that bounced.
  const isPermanent = result.outcome === 'refused' && result.type === 'hard'
  return !isPermanent && soft_bounces === 0
}

interface SendingMessage {
  readonly message: MessageRow
  readonly reminder: ReminderRow
  readonly isErased: boolean
}

async function lockSendingMessage(
  tx: Transaction,
  messageId: string,
  lease: string,
): Promise<SendingMessage | undefined> {
  const found = await tx
    .selectFrom('reminders')
    .select(['account_id', 'debtor_id'])
    .where('message_id', '=', messageId)
    .executeTakeFirst()
  if (found === undefined) return undefined
  const debtor = await lockDebtor(tx, found.account_id, found.debtor_id)
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
  if (reminder === undefined || message === undefined) return undefined
  const isErased = debtor !== undefined && debtor.erased_at !== null
  return { reminder, message: isErased ? { ...message, ...ERASED_TEXTS } : message, isErased }
}

/**
 * Replaces the stored values in a message to an erased debtor, because the erasure may not have emptied the row of the
 * message yet. With the stored recipient, a bounce would add the erased address to the list of suppressed addresses.
 */
const ERASED_TEXTS = { recipient: null, subject: null, body: null } as const

async function scheduleRetry(
  tx: Transaction,
  message: MessageRow,
  reminder: ReminderRow,
  detail: string | null,
  now: Date,
): Promise<void> {
  const ms = Math.min(RETRY_MS * 2 ** (reminder.attempts - 1), RETRY_MS_MAX)
  const at = new Date(now.getTime() + ms * (0.75 + Math.random() / 2)).toISOString()
  await setNextRun(tx, message.id, at)
  const change = { status: 'queued', scheduled_for: at, delivered_at: null } as const
  await changeMessage(tx, message, change, detail, now)
}

async function handleUnknownOutcome(
  tx: Transaction,
  message: MessageRow,
  reminder: ReminderRow,
  detail: string | null,
  now: Date,
): Promise<void> {
  const unknown_outcomes = reminder.unknown_outcomes + 1
  await tx
    .updateTable('reminders')
    .set({ unknown_outcomes })
    .where('message_id', '=', message.id)
    .execute()
  await recordPossibleArrival(tx, message, readFacts(reminder.facts), now)
  if (unknown_outcomes >= UNKNOWN_OUTCOMES_MAX) await markOutcomeUnknown(tx, message, now)
  else await scheduleRetry(tx, message, reminder, detail, now)
}
