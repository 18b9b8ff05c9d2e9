/** Handles messages that the mail server has rejected, or that bounced. The caller must have locked the debtor. */
import type { MessageRow, Transaction } from '../../database/tables.ts'
import { suppressAddress } from '../../debtors/contactability.ts'
import { replanDebtor } from '../../debtors/debtors.ts'
import { changeMessage } from '../../messages/lifecycle.ts'
import { setNextRun } from './leases.ts'

export interface Bounce {
  /** `hard` is a permanent rejection, `soft` a transient one. */
  readonly type: 'hard' | 'soft'
  /** The enhanced status code (RFC 3463), or one of the other codes that `HandOverResult` lists. */
  readonly code: string
  /** The text of the mail server's reply or report. */
  readonly detail: string
}

/**
 * Hours until each retry after a transient rejection. If the last retry, 48 hours after the first attempt, is also
 * rejected, the rejection counts as permanent.
 */
const RETRY_AFTER_HOURS = [0.5, 11.5, 36]

/**
 * After a permanent rejection, or a transient rejection of the last retry, the message becomes `bounced` and its
 * address is suppressed. After any other transient rejection, the message becomes `queued` and is retried. If such a
 * message is obsolete, it becomes `bounced` instead, and its address is not suppressed. `detail` is null if the debtor
 * was erased.
 */
export async function bounceMessage(
  tx: Transaction,
  message: MessageRow,
  { type, code, detail }: Omit<Bounce, 'detail'> & { readonly detail: string | null },
  now: Date,
): Promise<void> {
  const retryAfterHours = type === 'hard' ? undefined : RETRY_AFTER_HOURS[message.soft_bounces]
  const bounce = { bounce_type: type, bounce_code: code }
  if (retryAfterHours !== undefined && !(await isObsolete(tx, message))) {
    const retryAt = new Date(now.getTime() + retryAfterHours * 3_600_000).toISOString()
    await setNextRun(tx, message.id, retryAt)
    const soft_bounces = message.soft_bounces + 1
    const change = { ...bounce, status: 'queued', soft_bounces, scheduled_for: retryAt } as const
    const reset = { sent_at: null, delivered_at: null }
    await changeMessage(tx, message, { ...change, ...reset }, detail, now)
    return
  }
  await setNextRun(tx, message.id, null)
  await changeMessage(tx, message, { ...bounce, status: 'bounced' }, detail, now)
  const { account_id: accountId, id: messageId, recipient: address } = message
  // A message that has a retry left is obsolete here. Its address may be valid, and is not suppressed.
  if (retryAfterHours !== undefined) await replanDebtor(tx, accountId, message.debtor_id, now)
  else if (address !== null) {
    const suppression = { accountId, address, reason: 'bounced', detail, messageId } as const
    await suppressAddress(tx, suppression, now)
  }
}

/**
 * Whether the message must not be sent again: a later reminder about one of its invoices has been planned or sent, or
 * retention has deleted the message's row in `reminders`. A mail server may report a transient rejection after many
 * days.
 */
async function isObsolete(
  tx: Transaction,
  { id, account_id: accountId, created_at: createdAt }: MessageRow,
): Promise<boolean> {
  const retryable = await tx
    .selectFrom('reminders')
    .select('message_id')
    .where('message_id', '=', id)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('message_invoices')
            .innerJoin('taken_stages', 'taken_stages.invoice_id', 'message_invoices.invoice_id')
            .innerJoin('messages', 'messages.id', 'taken_stages.message_id')
            .select('messages.id')
            .where('message_invoices.message_id', '=', id)
            .where('messages.account_id', '=', accountId)
            .where('messages.created_at', '>', createdAt),
        ),
      ),
    )
    .executeTakeFirst()
  return retryable === undefined
}
