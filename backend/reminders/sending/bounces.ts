/** Records that a message was rejected or bounced. The caller has locked the debtor. */
import type { MessageRow, Transaction } from '../../database/tables.ts'
import { suppressAddress } from '../../debtors/contactability.ts'
import { moveMessage } from '../../messages/lifecycle.ts'
import { scheduleNextRun } from './leases.ts'

export interface Bounce {
  readonly type: 'hard' | 'soft'
  /** Enhanced status code (RFC 3463). */
  readonly code: string
  /** The server's text. */
  readonly detail: string
}

/**
 * Hours until each retry after a transient rejection. After the last one, 48 hours in all, the rejection
 * counts as permanent.
 */
const RETRY_AFTER_HOURS = [0.5, 11.5, 36]

/**
 * After a permanent rejection the message is `bounced` and its address suppressed. After a transient one it
 * is `queued` and retried three times over 48 hours. Returns the changed message.
 */
export async function bounceMessage(
  tx: Transaction,
  message: MessageRow,
  { type, code, detail }: Bounce,
  now: Date,
): Promise<MessageRow> {
  const retryHours = type === 'hard' ? undefined : RETRY_AFTER_HOURS[message.soft_bounces]
  const bounce = { bounce_type: type, bounce_code: code }
  if (retryHours !== undefined) {
    const retryAt = new Date(now.getTime() + retryHours * 3_600_000).toISOString()
    await scheduleNextRun(tx, message.id, retryAt)
    const soft_bounces = message.soft_bounces + 1
    const change = { ...bounce, status: 'queued', soft_bounces, scheduled_for: retryAt } as const
    return moveMessage(tx, message, { ...change, sent_at: null }, detail, now)
  }
  await scheduleNextRun(tx, message.id, null)
  const bounced = await moveMessage(tx, message, { ...bounce, status: 'bounced' }, detail, now)
  if (message.recipient !== null) {
    const { account_id: accountId, id: messageId, recipient: address } = message
    const suppression = { accountId, address, reason: 'bounced', detail, messageId } as const
    await suppressAddress(tx, suppression, now)
  }
  return bounced
}
