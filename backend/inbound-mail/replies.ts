/**
 * Adds a customer's reply to the message log, notifies the Admins if the account has no address for replies, and pauses
 * chasing until a person resumes it.
 */
import { createId } from '../../shared/contract/id.ts'
import type { DebtorRow, MessageRow, Transaction } from '../database/tables.ts'
import { changeDebtor } from '../debtors/change.ts'
import { isPausedByBounce } from '../debtors/contactability.ts'
import { recordNotice } from '../mail/notices.ts'
import { recordMessageEvent } from '../messages/lifecycle.ts'
import { recordTransitions } from '../messages/transitions.ts'

export interface Reply {
  /** The debtor, which the caller has locked. */
  readonly debtor: DebtorRow
  readonly repliedTo: MessageRow
  readonly subject: string
  readonly text: string
}

export async function recordReply(tx: Transaction, reply: Reply, now: Date): Promise<void> {
  const row = await logReply(tx, reply, now)
  await notifyAdmins(tx, row, now)
  await pauseChasing(tx, reply.debtor, now)
}

/**
 * A person should read the reply before the debtor gets another reminder. Replaces a pause that could end without a
 * decision about the reply: a pause with an end date, or the pause after a bounce, which ends when the address is
 * confirmed.
 */
async function pauseChasing(tx: Transaction, debtor: DebtorRow, now: Date): Promise<void> {
  const { chasing_status: status, chasing_until: until } = debtor
  const lastsUntilResumed = status !== 'active' && until === null && !isPausedByBounce(debtor)
  if (lastsUntilResumed) return
  const pause = {
    chasing_status: 'paused',
    chasing_reason: 'replied',
    chasing_until: null,
  } as const
  await changeDebtor(tx, debtor, pause, now)
}

async function logReply(
  tx: Transaction,
  { repliedTo, subject, text }: Reply,
  now: Date,
): Promise<MessageRow> {
  const at = now.toISOString()
  const row: MessageRow = {
    ...NO_OUTBOUND_VALUES,
    id: createId('msg'),
    account_id: repliedTo.account_id,
    debtor_id: repliedTo.debtor_id,
    channel: 'email',
    direction: 'inbound',
    kind: 'reply',
    status: 'received',
    subject,
    body: text,
    created_at: at,
    updated_at: at,
    revision: 1,
  }
  await tx.insertInto('messages').values(row).execute()
  await tx
    .insertInto('message_invoices')
    .columns(['message_id', 'position', 'account_id', 'invoice_id'])
    .expression((eb) =>
      eb
        .selectFrom('message_invoices')
        .select([eb.val(row.id).as('message_id'), 'position', 'account_id', 'invoice_id'])
        .where('message_id', '=', repliedTo.id),
    )
    .execute()
  await recordTransitions(tx, [row], null, now)
  await recordMessageEvent(tx, row, now)
  return row
}

/** Admins get no notice if the account has its own address for replies, because its staff read the replies there. */
async function notifyAdmins(tx: Transaction, { account_id: accountId, id }: MessageRow, now: Date) {
  const account = await tx
    .selectFrom('accounts')
    .select('reply_to')
    .where('id', '=', accountId)
    .executeTakeFirst()
  if (account?.reply_to !== null) return
  await recordNotice(tx, { accountId, kind: 'message.received', subjectId: id, detail: {} }, now)
}

const NO_OUTBOUND_VALUES = {
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
