/**
 * The gate is the first step of sending a message. In one transaction, under the debtor's lock, it checks
 * every rail; the commit that marks the message `sending` decides that it is sent. If a fact cannot be
 * read, the transaction fails and nothing is sent.
 *
 * A message whose lease has expired passes the gate again. It may have been handed over before, and is
 * therefore handed over at most once more, with the same Message-ID.
 */
import { sql } from 'kysely'
import { findLogo } from '../../accounts/logo.ts'
import { addDays } from '../../calendar/calendar.ts'
import type { Transaction } from '../../database/database.ts'
import { stampOf } from '../../database/stamp.ts'
import type { MessageRow } from '../../database/tables.ts'
import { replanDebtor } from '../../debtors/debtors.ts'
import type { Mail, Mailer } from '../../mail/mail.ts'
import type { UnsubscribeLinks } from '../../mail/unsubscribe-links.ts'
import { announceMessage, moveMessage } from '../../messages/lifecycle.ts'
import { hashOf } from '../approvals.ts'
import {
  coveredInFull,
  findRefusal,
  findRefusalIgnoringDemo,
  type Refusal,
  type Situation,
} from '../rails.ts'
import { REMINDERS, START_MS_MAX, scheduleNextRun } from './leases.ts'
import { ensureText, readFace, showsOldDetails, writeText } from './text.ts'
import { countUnknown, lockQueuedMessage, situationOf, type Waiting } from './waiting-message.ts'

/** How long a message waits while another one to the same debtor is being handed over. */
const BEHIND_OTHER_MS = 60_000

export interface GateDeps {
  readonly mailer: Pick<Mailer, 'messageIdOf'>
  readonly links: UnsubscribeLinks
}

/** A message to hand over. */
export interface HandOver {
  readonly messageId: string
  readonly lease: string
  readonly mail: Mail
  /** The hand-over must start before this instant: a payment may have been recorded since the gate. */
  readonly startBefore: Date
}

/**
 * Returns undefined if the message must not be sent now: it is blocked or postponed, or another worker has
 * its lease.
 */
export async function openGate(
  tx: Transaction,
  deps: GateDeps,
  messageId: string,
  now: Date,
): Promise<HandOver | undefined> {
  const held = await lockQueuedMessage(tx, messageId, now)
  if (held === undefined) return undefined
  const waiting = await countUnknown(tx, held, now)
  if (waiting === undefined) return undefined
  const situation = await situationOf(tx, waiting, now)
  // Sample data awaits approval, so that it can be tried; once approved, it is not sent.
  const isAwaiting = waiting.message.status === 'awaiting_approval'
  const refusal = (isAwaiting ? findRefusalIgnoringDemo : findRefusal)(situation)
  if (refusal !== undefined) return suppress(tx, waiting, situation, refusal)
  if (isOutdated(situation)) return cancel(tx, waiting, 'its content has become outdated', now)
  if (isAwaiting) return requestApproval(tx, deps, waiting, now)
  if (await showsOldDetails(tx, waiting, waiting.reminder.payment_digest)) {
    return cancel(tx, waiting, 'how to pay has changed since it was written', now)
  }
  if (!(await isApproved(tx, waiting)))
    return cancel(tx, waiting, 'it is not what was approved', now)
  const later = await nextAllowedAt(tx, waiting, now)
  if (later !== undefined) return postpone(tx, waiting, later, now)
  if (await isBehindAnother(tx, waiting)) {
    const soon = new Date(now.getTime() + BEHIND_OTHER_MS)
    await scheduleNextRun(tx, waiting.message.id, soon.toISOString())
    return undefined
  }
  return startSending(tx, deps, waiting, now)
}

async function suppress(
  tx: Transaction,
  { message, reminder, facts }: Waiting,
  situation: Situation & Pick<Required<Situation>, 'message'>,
  { reason, detail }: Refusal,
): Promise<undefined> {
  const { now } = situation
  const maybeLeft = reminder.unknown_outcomes > 0 ? ' (it may have left before)' : ''
  const change = {
    status: 'suppressed',
    suppression_reason: reason,
    suppression_detail: `${detail}${maybeLeft}`,
    ...decisionOf(message, reason),
  } as const
  await moveMessage(tx, message, change, `${reason}: ${detail}${maybeLeft}`, now)
  const { message: covering, ...standing } = situation
  // A block that applies to the next message too is shown on the invoices, and the planner waits for its
  // end.
  const blockedIds =
    reason === 'credit_on_account'
      ? coveredInFull(covering)
      : findRefusal(standing)?.reason === reason
        ? facts.invoices.map(({ id }) => id)
        : []
  if (blockedIds.length > 0) {
    await tx
      .updateTable('invoices')
      .set({
        chasing_next_action_at: null,
        chasing_blocked_reason: reason,
        ...stampOf(tx, now.toISOString()),
      })
      .where('account_id', '=', message.account_id)
      .where('status', 'in', ['open', 'partially_paid'])
      .where('chasing_status', '=', 'active')
      .where('id', 'in', blockedIds)
      .execute()
  }
  await replanDebtor(tx, message.account_id, message.debtor_id, now)
}

const PAYMENT_REASONS: readonly Refusal['reason'][] = [
  'invoice_paid',
  'payment_received',
  'credit_on_account',
]

/** An approval is kept unless the amounts due have changed. */
function decisionOf({ approval_status: status }: MessageRow, reason: Refusal['reason']) {
  if (reason === 'approval_expired') return { approval_status: 'expired' } as const
  const isOwed = !PAYMENT_REASONS.includes(reason)
  if (status === null || (status === 'approved' && isOwed)) return {}
  return { approval_status: 'lapsed' } as const
}

/**
 * Whether recipient or amounts differ from the message, or an invoice was paid and reopened in the
 * meantime: the message is then planned again. Separate rails check whether less is due or more is on
 * account.
 */
function isOutdated({ debtor, message }: Situation): boolean {
  if (message === undefined) return false
  const { facts, invoices, onAccount } = message
  return (
    facts.recipient !== debtor.email ||
    facts.invoices.some(({ id, amountDue, onAccount: planned = 0, cycle }) => {
      const invoice = invoices.get(id)
      const isRequested = invoice?.amount_due === amountDue && (onAccount.get(id) ?? 0) === planned
      return !isRequested || invoice.chasing_cycle !== cycle
    })
  )
}

async function cancel(
  tx: Transaction,
  { message }: Waiting,
  detail: string,
  now: Date,
): Promise<undefined> {
  const lapsed = message.approval_status === null ? {} : ({ approval_status: 'lapsed' } as const)
  await moveMessage(tx, message, { status: 'cancelled', ...lapsed }, detail, now)
  await replanDebtor(tx, message.account_id, message.debtor_id, now)
}

/**
 * Writes the text that a person is to approve. This is repeated when the wording or the payment details
 * change, and when the approval expires.
 */
async function requestApproval(
  tx: Transaction,
  deps: GateDeps,
  waiting: Waiting,
  now: Date,
): Promise<undefined> {
  const isNew = waiting.message.body === null
  const message = await writeText(tx, deps.links, waiting, now)
  await scheduleNextRun(tx, message.id, waiting.facts.expiresAt)
  if (isNew) await announceMessage(tx, message, now)
}

async function isApproved(
  tx: Transaction,
  { message, reminder, facts }: Waiting,
): Promise<boolean> {
  if (message.approval_required === 0) return true
  if (message.approval_status !== 'approved') return false
  const { logo_id } = await readFace(tx, message.id)
  return reminder.approved_hash === hashOf(facts, { ...message, logo_id })
}

/**
 * Returns the time from which the send window and the daily cap allow the message; undefined if they allow
 * it now.
 */
async function nextAllowedAt(
  tx: Transaction,
  { message, debtor, account, facts }: Waiting,
  now: Date,
): Promise<Date | undefined> {
  const time = account.timeOf(debtor)
  const today = time.dayOf(now)
  if (!time.isOpen(now)) return time.firstSlot(today, now) ?? never(now)
  const { id: debtorId, account_id: accountId } = debtor
  const since = new Date(now.getTime() - 2 * 86_400_000).toISOString()
  const others = await tx
    .selectFrom('messages')
    .select('sent_at')
    .where('account_id', '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where('id', '!=', message.id)
    .where('direction', '=', 'outbound')
    .where('kind', '=', 'reminder')
    .where('sent_at', '>', since)
    .execute()
  // A message with an unknown outcome may have arrived.
  const attempted = await tx
    .selectFrom('invoices')
    .select('chasing_last_message_at as at')
    .where('account_id', '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where('chasing_last_message_at', '>', since)
    .where(
      'id',
      'not in',
      facts.invoices.map(({ id }) => id),
    )
    .execute()
  const isToday = (at: string | null) => at !== null && time.dayOf(new Date(at)) === today
  const sentToday =
    others.some(({ sent_at: at }) => isToday(at)) || attempted.some(({ at }) => isToday(at))
  return sentToday ? (time.firstSlot(addDays(today, 1), now) ?? never(now)) : undefined
}

/**
 * Whether another reminder to the debtor is being sent. Its outcome decides whether this one is sent today.
 * Nothing is logged meanwhile, since it takes a minute at most, or a day if a clock was set back.
 */
async function isBehindAnother(tx: Transaction, { message, debtor }: Waiting): Promise<boolean> {
  const other = await tx
    .selectFrom('messages')
    .select('id')
    .where('account_id', '=', debtor.account_id)
    .where('debtor_id', '=', debtor.id)
    .where('id', '!=', message.id)
    .where('direction', '=', 'outbound')
    .where('kind', '=', 'reminder')
    .where('status', '=', 'sending')
    .limit(1)
    .executeTakeFirst()
  return other !== undefined
}

/** If every day is a holiday, checks again in a month. */
function never(now: Date): Date {
  return new Date(now.getTime() + 30 * 86_400_000)
}

async function postpone(
  tx: Transaction,
  { message }: Waiting,
  until: Date,
  now: Date,
): Promise<undefined> {
  const at = until.toISOString()
  await scheduleNextRun(tx, message.id, at)
  const status = message.approval_required === 1 ? 'approved' : 'scheduled'
  const change = { status, scheduled_for: at } as const
  await moveMessage(tx, message, change, 'outside of the send window, or one was sent today', now)
}

async function startSending(
  tx: Transaction,
  { mailer, links }: GateDeps,
  waiting: Waiting,
  now: Date,
): Promise<HandOver> {
  const message = await ensureText(tx, links, waiting, now)
  const { id, account_id: accountId, recipient, subject, body } = message
  if (recipient === null || subject === null || body === null) {
    throw new Error(`message ${id} has no recipient or no text`)
  }
  const attempts = sql<number>`attempts + 1`
  const lease = await REMINDERS.claim(tx, [id], now, { attempts })
  await moveMessage(tx, message, { status: 'sending' }, null, now)
  const { row: account } = waiting.account
  const face = await readFace(tx, id)
  const mail = {
    messageId: mailer.messageIdOf(id),
    to: recipient,
    fromName: face.sender_name ?? account.name,
    replyTo: account.reply_to ?? undefined,
    subject,
    text: body,
    html: face.html,
    logo: await findLogo(tx, accountId, face.logo_id),
    unsubscribeUrl: links.linkFor({ accountId, address: recipient }),
  }
  return { messageId: id, lease, mail, startBefore: new Date(now.getTime() + START_MS_MAX) }
}
