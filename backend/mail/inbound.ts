/**
 * Mail that came in, and what it changes. The same mail posted again changes nothing more: whoever
 * posts it repeats what was not confirmed.
 */
import { createHash } from 'node:crypto'
import { createId } from '../../shared/id.ts'
import type { InboundMailRow } from '../database/tables/mail.ts'
import type { MessageRow, Reader, Transaction } from '../database/tables.ts'
import { changeDebtor } from '../debtors/change.ts'
import { lockDebtor } from '../debtors/debtors.ts'
import { announceMessage, moveMessage } from '../messages/lifecycle.ts'
import { recordTransitions } from '../messages/transitions.ts'
import { bounceMessage } from './bounces.ts'
import type { InboundMail } from './inbound-mail.ts'
import { recordNotice } from './notices.ts'
import { noteReturned } from './outbox.ts'
import { suppressAddress } from './reachability.ts'

/** Where a report still says something new of a message. */
const MAY_BOUNCE: readonly MessageRow['status'][] = [
  'queued',
  'sending',
  'sent',
  'delivered',
  'failed',
]

/** What was received, and the message of ours that it is about; null where it is about none. */
export interface Received {
  readonly kind: InboundMailRow['kind']
  readonly messageId: string | null
}

export async function receiveMail(
  tx: Transaction,
  raw: Buffer,
  mail: InboundMail,
  now: Date,
): Promise<Received> {
  const { kind } = mail.content
  const ours = await findMessage(tx, mail.references)
  if (ours === undefined) {
    // Of strangers nothing is kept.
    await noteReturnedNotice(tx, mail, now)
    return { kind, messageId: null }
  }
  // Two that post it at once: the second waits here for the first.
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('inbound_mail')
    .values({
      digest: createHash('sha256').update(raw).digest('base64url'),
      kind,
      account_id: ours.account_id,
      message_id: ours.id,
      sender: mail.sender,
      received_at: now.toISOString(),
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 1n) await apply(tx, mail, ours, now)
  return { kind, messageId: ours.id }
}

async function noteReturnedNotice(tx: Transaction, mail: InboundMail, now: Date): Promise<void> {
  const { content, references } = mail
  const id = references.find((reference) => reference.startsWith('mlo_'))
  if (content.kind === 'bounce' && id !== undefined) {
    await noteReturned(tx, id, content.bounce.detail, now)
  }
}

async function apply(
  tx: Transaction,
  { content }: InboundMail,
  found: Pick<MessageRow, 'id' | 'account_id' | 'debtor_id'>,
  now: Date,
): Promise<void> {
  const debtor = await lockDebtor(tx, found.account_id, found.debtor_id)
  const message = await tx
    .selectFrom('messages')
    .selectAll()
    .where('id', '=', found.id)
    .executeTakeFirst()
  if (debtor === undefined || message === undefined || debtor.erased_at !== null) return
  const { account_id: accountId, id: messageId, recipient: address } = message
  if (content.kind === 'bounce' && MAY_BOUNCE.includes(message.status)) {
    // It waits for its next try already, or had the last.
    const isDecided = message.status === 'queued' || message.status === 'failed'
    if (content.bounce.type === 'soft' && isDecided) return
    await bounceMessage(tx, message, content.bounce, now)
  } else if (content.kind === 'delivery' && message.status === 'sent') {
    const change = { status: 'delivered', delivered_at: now.toISOString() } as const
    await moveMessage(tx, message, change, null, now)
  } else if (content.kind === 'complaint' && address !== null) {
    const suppression = {
      accountId,
      address,
      reason: 'complained',
      detail: null,
      messageId,
    } as const
    await suppressAddress(tx, suppression, now)
  } else if (content.kind === 'reply') {
    await logReply(tx, message, content, now)
    if (debtor.chasing_status === 'active') {
      const change = {
        chasing_status: 'paused',
        chasing_reason: 'replied',
        chasing_until: null,
      } as const
      await changeDebtor(tx, debtor, change, now)
    }
  }
}

/** In the log, about the same invoices as what it answers. */
async function logReply(
  tx: Transaction,
  answered: MessageRow,
  { subject, text }: { readonly subject: string; readonly text: string },
  now: Date,
): Promise<void> {
  const at = now.toISOString()
  const row: MessageRow = {
    ...NO_OUTBOUND_FACTS,
    id: createId('msg'),
    account_id: answered.account_id,
    debtor_id: answered.debtor_id,
    channel: 'email',
    direction: 'inbound',
    kind: 'reply',
    status: 'received',
    subject,
    body: text,
    created_at: at,
    updated_at: at,
  }
  await tx.insertInto('messages').values(row).execute()
  await tx
    .insertInto('message_invoices')
    .columns(['message_id', 'position', 'account_id', 'invoice_id'])
    .expression((eb) =>
      eb
        .selectFrom('message_invoices')
        .select([eb.val(row.id).as('message_id'), 'position', 'account_id', 'invoice_id'])
        .where('message_id', '=', answered.id),
    )
    .execute()
  await recordTransitions(tx, [row], null, now)
  await announceMessage(tx, row, now)
  await tellAdmins(tx, row, now)
}

/** Where the account has an address for replies, its people have read it there. */
async function tellAdmins(tx: Transaction, { account_id: accountId, id }: MessageRow, now: Date) {
  const account = await tx
    .selectFrom('accounts')
    .select('reply_to')
    .where('id', '=', accountId)
    .executeTakeFirst()
  if (account?.reply_to !== null) return
  await recordNotice(tx, { accountId, kind: 'message.received', subjectId: id, detail: {} }, now)
}

/** What only messages have that we send. */
const NO_OUTBOUND_FACTS = {
  stage: null,
  suppression_reason: null,
  suppression_detail: null,
  approval_required: 0,
  approval_status: null,
  approval_decided_by: null,
  approval_decided_at: null,
  recipient: null,
  amount_due: null,
  currency: null,
  days_past_due: null,
  provider_message_id: null,
  delivered_at: null,
  bounce_type: null,
  bounce_code: null,
  soft_bounces: 0,
  scheduled_for: null,
  sent_at: null,
} as const

/** By our id, or by the one that the server gave it; the latest, where a thread names several. */
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
