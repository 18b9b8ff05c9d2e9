/**
 * Processes inbound mail. Providers post a mail again if they got no response, so a mail that was already processed has
 * no further effect.
 */
import { createHash } from 'node:crypto'
import { nextRevision } from '../database/revision.ts'
import type {
  DebtorRow,
  InboundMailRow,
  MessageRow,
  MessageStatus,
  Reader,
  Transaction,
} from '../database/tables.ts'
import { suppressAddress } from '../debtors/contactability.ts'
import { lockDebtor, replanDebtor } from '../debtors/debtors.ts'
import { recordBouncedNotice } from '../mail/outbox.ts'
import { changeMessage, timeOfSending } from '../messages/lifecycle.ts'
import { type Bounce, bounceMessage } from '../reminders/sending/bounces.ts'
import { markSent } from '../reminders/sending/mark-sent.ts'
import type { Failure, InboundMail } from './inbound-mail.ts'
import { recordReply } from './replies.ts'

export interface ReceivedMail {
  readonly kind: InboundMailRow['kind']
  /** The id of our message to which the mail refers; null if it refers to none. */
  readonly messageId: string | null
}

export async function receiveMail(
  tx: Transaction,
  raw: Buffer,
  mail: InboundMail,
  now: Date,
): Promise<ReceivedMail> {
  const { kind } = mail.content
  const message = await findMessage(tx, mail.references)
  if (message === undefined) {
    // The mail is not stored. It may be the bounce of a notice, which has no row in `messages`.
    await applyToNotice(tx, mail, now)
    return { kind, messageId: null }
  }
  // If a mail is posted twice at the same time, the second transaction waits here for the first.
  const debtor = await lockDebtor(tx, message.account_id, message.debtor_id)
  const isErased = debtor !== undefined && debtor.erased_at !== null
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('inbound_mail')
    .values({
      digest: createHash('sha256').update(raw).digest('base64url'),
      kind,
      account_id: message.account_id,
      message_id: message.id,
      sender: isErased ? null : mail.sender,
      received_at: now.toISOString(),
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  const isNew = numInsertedOrUpdatedRows === 1n
  if (isNew && debtor !== undefined && !isErased)
    await applyToMessage(tx, mail, debtor, message.id, now)
  return { kind, messageId: message.id }
}

async function applyToNotice(tx: Transaction, mail: InboundMail, now: Date): Promise<void> {
  const { content, references } = mail
  // The id of the mail with the notice.
  const id = references.find((reference) => reference.startsWith('mlo_'))
  const [failure] = content.kind === 'bounce' ? content.failures : []
  if (failure !== undefined && id !== undefined) {
    await recordBouncedNotice(tx, id, failure.bounce.detail, now)
  }
}

/** The caller must have locked the debtor. The message may have changed before the lock, so it is read again. */
async function applyToMessage(
  tx: Transaction,
  { content, sender }: InboundMail,
  debtor: DebtorRow,
  messageId: string,
  now: Date,
): Promise<void> {
  const message = await tx
    .selectFrom('messages')
    .selectAll()
    .where('id', '=', messageId)
    .executeTakeFirst()
  if (message === undefined) return
  switch (content.kind) {
    case 'bounce': {
      const bounce = bounceOfRecipient(message, content.failures)
      if (bounce !== undefined && (await bounceChangesMessage(tx, message, bounce)))
        await bounceMessage(tx, message, bounce, now)
      break
    }
    case 'delivery':
      await markDelivered(tx, message, now)
      break
    case 'delay':
      await markAccepted(tx, message, now)
      break
    case 'unknown':
      if (content.isRelayed) await markAccepted(tx, message, now)
      break
    case 'complaint':
      await suppressRecipient(tx, message, now)
      break
    case 'reply':
      if (!(await isFromAccount(tx, sender, message)))
        await recordReply(tx, { debtor, repliedTo: message, ...content }, now)
      break
    // Mails of other kinds, such as automatic replies, change nothing.
  }
}

/**
 * Whether the account's own people sent the mail. Such a mail is not a customer's reply. If the account has an address
 * for replies, the account's people answer customers from this address or from their own. If they use “reply all”, this
 * service gets a copy. Without an address for replies, every mail counts as a customer's reply. A mail from the
 * recipient of the message also always counts as a reply, because an Admin may try out reminders with a customer that
 * has the Admin's address.
 */
async function isFromAccount(
  reader: Reader,
  sender: string | null,
  { account_id: accountId, recipient }: MessageRow,
): Promise<boolean> {
  const address = sender?.toLowerCase()
  if (address === undefined || address === recipient?.toLowerCase()) return false
  const account = await reader
    .selectFrom('accounts')
    .select('reply_to')
    .where('id', '=', accountId)
    .executeTakeFirst()
  const replyAddress = account?.reply_to?.toLowerCase()
  if (replyAddress === undefined) return false
  if (replyAddress === address) return true
  const user = await reader
    .selectFrom('users')
    .select('id')
    .where('account_id', '=', accountId)
    .where('email', '=', address)
    .executeTakeFirst()
  return user !== undefined
}

/**
 * Returns undefined if the reminder failed only at addresses to which the recipient's server has forwarded it, e.g.
 * because the recipient is a mailing list. A report without a readable address counts as a report about the recipient.
 */
function bounceOfRecipient(
  { recipient }: MessageRow,
  failures: readonly Failure[],
): Bounce | undefined {
  const own = recipient?.toLowerCase()
  return failures.find(({ address = own }) => address?.toLowerCase() === own)?.bounce
}

/**
 * The statuses of a message that waits for a retry: `queued` or, if the retry was postponed, `scheduled` or `approved`.
 */
const RETRY_STATUSES: readonly MessageStatus[] = ['queued', 'scheduled', 'approved']

async function bounceChangesMessage(
  reader: Reader,
  { id, status }: MessageRow,
  { type }: Bounce,
): Promise<boolean> {
  if (status === 'sending' || status === 'sent' || status === 'delivered') return true
  if (type === 'soft') return false
  if (!RETRY_STATUSES.includes(status)) return status === 'failed'
  const attempted = await reader
    .selectFrom('reminders')
    .select('message_id')
    .where('message_id', '=', id)
    .where('attempts', '>', 0)
    .executeTakeFirst()
  return attempted !== undefined
}

async function markDelivered(tx: Transaction, message: MessageRow, now: Date): Promise<void> {
  const delivered_at = now.toISOString()
  if (message.status === 'sent') {
    await changeMessage(tx, message, { status: 'delivered', delivered_at }, null, now)
  }
  if (message.status === 'sending') {
    // The worker marks the message as delivered when it records the result of the hand-over.
    await tx
      .updateTable('messages')
      .set({ delivered_at, ...nextRevision(tx, delivered_at) })
      .where('id', '=', message.id)
      .execute()
  }
  await markSentIfOutcomeUnknown(tx, { ...message, delivered_at }, now)
}

/**
 * Called for a report that the message was delayed or passed on. After a soft bounce, the report may be about the
 * attempt that bounced, so it does not show that the present one was accepted.
 */
async function markAccepted(tx: Transaction, message: MessageRow, now: Date): Promise<void> {
  const { status, sent_at: sentAt, soft_bounces: softBounces } = message
  if (status === 'sending' && sentAt === null && softBounces === 0) {
    // The worker marks the message as sent when it records the result of the hand-over.
    const sent_at = timeOfSending(message, now)
    await tx
      .updateTable('messages')
      .set({ sent_at, ...nextRevision(tx, now.toISOString()) })
      .where('id', '=', message.id)
      .execute()
  }
  await markSentIfOutcomeUnknown(tx, message, now)
}

/**
 * Called for a report that proves that the mail server had accepted the message. Marks the message as sent if it waits
 * for a retry because the outcome of its hand-over was unknown. After a soft bounce, the message must be sent again, so
 * it is not marked.
 */
async function markSentIfOutcomeUnknown(
  tx: Transaction,
  message: MessageRow,
  now: Date,
): Promise<void> {
  if (!RETRY_STATUSES.includes(message.status) || message.soft_bounces > 0) return
  const reminder = await tx
    .selectFrom('reminders')
    .selectAll()
    .where('message_id', '=', message.id)
    .where('unknown_outcomes', '>', 0)
    .executeTakeFirst()
  if (reminder === undefined) return
  await markSent(tx, message, reminder, null, now)
  await replanDebtor(tx, message.account_id, message.debtor_id, now)
}

async function suppressRecipient(tx: Transaction, message: MessageRow, now: Date): Promise<void> {
  const { account_id: accountId, id: messageId, recipient: address } = message
  if (address === null) return
  const complaint = { accountId, address, reason: 'complained', detail: null, messageId } as const
  await suppressAddress(tx, complaint, now)
}

/**
 * Returns the latest message with one of these ids, which are our own or were given by the mail server. A mail in a
 * thread may refer to several messages.
 */
async function findMessage(reader: Reader, references: readonly string[]) {
  if (references.length === 0) return undefined
  return reader
    .selectFrom('messages')
    .select(['id', 'account_id', 'debtor_id'])
    .where('direction', '=', 'outbound')
    .where((eb) => eb.or([eb('id', 'in', references), eb('provider_message_id', 'in', references)]))
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
}
