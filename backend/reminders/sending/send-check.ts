/**
 * The send check is the first step of sending a message. One transaction locks the debtor, applies every safety
 * rail and, if nothing blocks the message, marks it as `sending`. The message is handed over only after the
 * transaction has committed. If the data cannot be read, the transaction fails and nothing is sent.
 *
 * If the lease of a message expires, the send check runs again. The message may already have been handed over. If a
 * report has shown that the mail server accepted it, the message is not handed over again. Otherwise, it is handed over
 * at most once more, with the same Message-ID.
 */
import { sql } from 'kysely'
import { findLogo } from '../../accounts/logo.ts'
import { addDays } from '../../calendar/calendar.ts'
import type { Transaction } from '../../database/database.ts'
import { nextRevision } from '../../database/revision.ts'
import type { MessageRow } from '../../database/tables.ts'
import { replanDebtor } from '../../debtors/debtors.ts'
import type { Mail, Mailer } from '../../mail/mail.ts'
import type { UnsubscribeLinks } from '../../mail/unsubscribe-links.ts'
import { changeMessage, recordMessageEvent } from '../../messages/lifecycle.ts'
import { contentDigestOf } from '../approvals.ts'
import {
  coveredInFull,
  findRefusal,
  findRefusalIgnoringDemo,
  type Refusal,
  type Situation,
} from '../safety-rails.ts'
import { wasAnotherSentToday } from '../sending-time.ts'
import { REMINDER_LEASES, setNextRun } from './leases.ts'
import { markSent } from './mark-sent.ts'
import { ensureText, readMessageHtml, showsOutdatedPaymentDetails, writeText } from './text.ts'
import {
  lockWaitingMessage,
  recordUnknownOutcomeIfInterrupted,
  situationOf,
  type WaitingMessage,
} from './waiting-message.ts'

/** The send check of a message is repeated after this time if another message to the debtor is being sent. */
const WAIT_FOR_OTHER_MS = 60_000

export interface SendCheckDeps {
  readonly mailer: Pick<Mailer, 'messageIdOf'>
  readonly unsubscribeLinks: UnsubscribeLinks
}

/** A message that has passed the send check and must be handed over. */
export interface HandOver {
  readonly messageId: string
  readonly lease: string
  readonly mail: Mail
  /**
   * The hand-over must start before this time. Later, the lease could expire during the hand-over, and the invoices may
   * have been paid since the send check.
   */
  readonly startBefore: Date
}

/**
 * Returns undefined if the message must not be handed over now, e.g. because it is blocked, postponed or not yet
 * approved, or because another worker has its lease.
 */
export async function runSendCheck(
  tx: Transaction,
  deps: SendCheckDeps,
  messageId: string,
  now: Date,
): Promise<HandOver | undefined> {
  const locked = await lockWaitingMessage(tx, messageId, now)
  if (locked === undefined) return undefined
  const { message, reminder } = locked
  // The worker that handed the message over ended before it recorded the result, but a report shows that the mail
  // server accepted the message.
  if (message.status === 'sending' && (message.delivered_at ?? message.sent_at) !== null) {
    await markSent(tx, message, reminder, null, now)
    await replanDebtor(tx, message.account_id, message.debtor_id, now)
    return undefined
  }
  const waiting = await recordUnknownOutcomeIfInterrupted(tx, locked, now)
  // Too many hand-overs had an unknown outcome, so the message is not sent again.
  if (waiting === undefined) return undefined
  const situation = await situationOf(tx, waiting, now)
  // Users can also approve messages about sample data, to try out approvals. The safety rail `demo` blocks such a
  // message only after its approval.
  const awaitsApproval = waiting.message.status === 'awaiting_approval'
  const refusal = (awaitsApproval ? findRefusalIgnoringDemo : findRefusal)(situation)
  if (refusal !== undefined) return suppress(tx, waiting, situation, refusal)
  if (isOutdated(situation)) return cancel(tx, waiting, 'the content is outdated', now)
  if (isLateCourtesy(waiting, now)) return cancel(tx, waiting, 'the due date has passed', now)
  if (isExcluded(waiting))
    return cancel(
      tx,
      waiting,
      'an invoice fell due before the date from which the account sends reminders',
      now,
    )
  if (awaitsApproval) return requestApproval(tx, deps, waiting, now)
  if (await showsOutdatedPaymentDetails(tx, waiting, waiting.reminder.payment_digest)) {
    return cancel(tx, waiting, 'the payment details in the text are outdated', now)
  }
  if (!(await isApprovedIfRequired(tx, waiting)))
    return cancel(tx, waiting, 'the content differs from the approved content', now)
  const delay = await findDelay(tx, waiting, now)
  if (delay !== undefined) return postpone(tx, waiting, delay, now)
  if (await isAnotherBeingSent(tx, waiting)) {
    const soon = new Date(now.getTime() + WAIT_FOR_OTHER_MS)
    await setNextRun(tx, waiting.message.id, soon.toISOString())
    return undefined
  }
  return startSending(tx, deps, waiting, now)
}

async function suppress(
  tx: Transaction,
  { message, reminder, facts }: WaitingMessage,
  situation: Situation & Pick<Required<Situation>, 'message'>,
  { reason, detail }: Refusal,
): Promise<undefined> {
  const { now } = situation
  const maybeSent = reminder.unknown_outcomes > 0 ? ' (it may have been sent before)' : ''
  const change = {
    status: 'suppressed',
    suppression_reason: reason,
    suppression_detail: `${detail}${maybeSent}`,
    ...approvalAfterSuppression(message, reason),
  } as const
  await changeMessage(tx, message, change, `${reason}: ${detail}${maybeSent}`, now)
  const { message: _, ...withoutMessage } = situation
  // If the same reason would also block a new message to the debtor, the reason is stored in the invoices, and the
  // planner plans no message about them until the reason no longer applies. Money on account blocks only the invoices
  // that it covers in full.
  const blockedIds =
    reason === 'credit_on_account'
      ? coveredInFull(situation.message)
      : findRefusal(withoutMessage)?.reason === reason
        ? facts.invoices.map(({ id }) => id)
        : []
  if (blockedIds.length > 0) {
    await tx
      .updateTable('invoices')
      .set({
        chasing_next_action_at: null,
        chasing_blocked_reason: reason,
        ...nextRevision(tx, now.toISOString()),
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

/**
 * An approved message remains marked as approved. After a payment, however, its approval lapses, because the person
 * approved other amounts. A pending approval expires if there was no decision in time, and lapses otherwise.
 */
function approvalAfterSuppression(
  { approval_status: status }: MessageRow,
  reason: Refusal['reason'],
) {
  if (reason === 'approval_expired') return { approval_status: 'expired' } as const
  const isPayment = PAYMENT_REASONS.includes(reason)
  if (status === null || (status === 'approved' && !isPayment)) return {}
  return { approval_status: 'lapsed' } as const
}

/**
 * Whether the recipient, an amount or a due date has changed since planning, or an invoice was paid and reopened. If
 * less is due or more is on account, a safety rail has already blocked the message.
 */
function isOutdated({ debtor, message }: Situation): boolean {
  if (message === undefined) return false
  const { facts: planned, invoices, onAccount } = message
  return (
    planned.recipient !== debtor.email ||
    planned.invoices.some(({ id, amountDue, onAccount: plannedOnAccount = 0, dueDate, cycle }) => {
      const invoice = invoices.get(id)
      const isUnchanged =
        invoice?.amount_due === amountDue && (onAccount.get(id) ?? 0) === plannedOnAccount
      return !isUnchanged || invoice.due_date !== dueDate || invoice.chasing_cycle !== cycle
    })
  )
}

/**
 * Whether the message announces a due date that has already passed, e.g. because the mail server was unavailable. Each
 * invoice has its own stage, so a Friendly reminder about one invoice can announce the due date of another.
 */
function isLateCourtesy({ facts, account, debtor }: WaitingMessage, now: Date): boolean {
  const today = account.workingTimeOf(debtor).dayOf(now)
  return facts.invoices.some(({ stage, dueDate }) => stage === 'courtesy' && dueDate < today)
}

/** Whether an invoice of the message fell due before `chaseFrom`, which the account may have changed since planning. */
function isExcluded({ facts, account }: WaitingMessage): boolean {
  const { chaseFrom } = account.settings
  return chaseFrom !== null && facts.invoices.some(({ dueDate }) => dueDate < chaseFrom)
}

async function cancel(
  tx: Transaction,
  { message }: WaitingMessage,
  detail: string,
  now: Date,
): Promise<undefined> {
  const lapsed = message.approval_status === null ? {} : ({ approval_status: 'lapsed' } as const)
  await changeMessage(tx, message, { status: 'cancelled', ...lapsed }, detail, now)
  await replanDebtor(tx, message.account_id, message.debtor_id, now)
}

/**
 * Writes the text that a person must approve. The send check runs again when the content of reminders changes
 * (`reminder-content.ts`), and when the approval period ends.
 */
async function requestApproval(
  tx: Transaction,
  deps: SendCheckDeps,
  waiting: WaitingMessage,
  now: Date,
): Promise<undefined> {
  const isNew = waiting.message.body === null
  const message = await writeText(tx, deps.unsubscribeLinks, waiting, now)
  await setNextRun(tx, message.id, waiting.facts.expiresAt)
  if (isNew) await recordMessageEvent(tx, message, now)
}

async function isApprovedIfRequired(
  tx: Transaction,
  { message, reminder, facts }: WaitingMessage,
): Promise<boolean> {
  if (message.approval_required === 0) return true
  if (message.approval_status !== 'approved') return false
  const { logo_id } = await readMessageHtml(tx, message.id)
  return reminder.approved_hash === contentDigestOf(facts, { ...message, logo_id })
}

interface Delay {
  readonly until: Date
  readonly detail: string
}

/** Returns undefined if the send window and the daily cap allow the message now. */
async function findDelay(
  tx: Transaction,
  { message, debtor, account }: WaitingMessage,
  now: Date,
): Promise<Delay | undefined> {
  const workingTime = account.workingTimeOf(debtor)
  const today = workingTime.dayOf(now)
  const delayFrom = (day: string, detail: string): Delay => ({
    until: workingTime.firstSlot(day, now) ?? inAMonth(now),
    detail,
  })
  if (!workingTime.isOpen(now)) return delayFrom(today, 'the time is outside business hours')
  return (await wasAnotherSentToday(tx, message, workingTime, now))
    ? delayFrom(addDays(today, 1), 'another reminder to the customer was sent today')
    : undefined
}

/** Whether another reminder to the debtor is being sent. Its outcome decides whether this message may be sent today. */
async function isAnotherBeingSent(
  tx: Transaction,
  { message, debtor }: WaitingMessage,
): Promise<boolean> {
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

/** If the send window never opens, because every day is a holiday, the send check runs again in a month. */
function inAMonth(now: Date): Date {
  return new Date(now.getTime() + 30 * 86_400_000)
}

async function postpone(
  tx: Transaction,
  { message }: WaitingMessage,
  { until, detail }: Delay,
  now: Date,
): Promise<undefined> {
  const at = until.toISOString()
  await setNextRun(tx, message.id, at)
  const status = message.approval_required === 1 ? 'approved' : 'scheduled'
  const change = { status, scheduled_for: at } as const
  await changeMessage(tx, message, change, detail, now)
}

async function startSending(
  tx: Transaction,
  { mailer, unsubscribeLinks }: SendCheckDeps,
  waiting: WaitingMessage,
  now: Date,
): Promise<HandOver> {
  const message = await ensureText(tx, unsubscribeLinks, waiting, now)
  const { id, account_id: accountId, recipient, subject, body } = message
  if (recipient === null || subject === null || body === null) {
    throw new Error(`message ${id} has no recipient or no text`)
  }
  const attempts = sql<number>`attempts + 1`
  const { lease, startBefore } = await REMINDER_LEASES.claim(tx, [id], now, { attempts })
  await changeMessage(tx, message, { status: 'sending' }, null, now)
  const { row: account } = waiting.account
  const { html, sender_name, logo_id } = await readMessageHtml(tx, id)
  const mail = {
    messageId: mailer.messageIdOf(id),
    to: recipient,
    fromName: sender_name ?? account.name,
    replyTo: account.reply_to ?? undefined,
    subject,
    text: body,
    html,
    logo: await findLogo(tx, accountId, logo_id),
    unsubscribeUrl: unsubscribeLinks.linkFor({ accountId, address: recipient }),
  }
  return { messageId: id, lease, mail, startBefore }
}
