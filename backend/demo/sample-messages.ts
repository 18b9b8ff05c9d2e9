/** Writes sample messages and the data that belongs to them, as if the reminder engine had written them. */

import { createId } from '../../shared/contract/id.ts'
import { paymentDetailsDigest, readPaymentDetails } from '../accounts/payment-details.ts'
import { daysBetween, todayIn } from '../calendar/calendar.ts'
import type { Transaction } from '../database/database.ts'
import { nextRevision } from '../database/revision.ts'
import type { AccountRow, InvoiceRow, MessageRow } from '../database/tables.ts'
import { suppressAddress } from '../debtors/contactability.ts'
import { writeReminder } from '../mail/wording/reminder-text.ts'
import type { SampleMessage } from './sample-ledger.ts'

const DAY_MS = 86_400_000
/** How long a reminder waits for approval, as in `reminders/planning/planned-message.ts`. */
const APPROVAL_PERIOD_MS = 7 * DAY_MS

/** `samples` must be sorted by age, the oldest first. */
export async function writeSampleMessages(
  tx: Transaction,
  account: AccountRow,
  invoiceId: string,
  samples: readonly SampleMessage[],
  now: Date,
): Promise<void> {
  for (const sample of samples) {
    // The previous message may have changed the invoice.
    const invoice = await tx
      .selectFrom('invoices')
      .selectAll()
      .where('id', '=', invoiceId)
      .executeTakeFirstOrThrow()
    await writeSampleMessage(tx, account, invoice, sample, now)
  }
}

async function writeSampleMessage(
  tx: Transaction,
  account: AccountRow,
  invoice: InvoiceRow,
  { daysAgo, stage, status }: SampleMessage,
  now: Date,
): Promise<void> {
  const at = new Date(now.getTime() - daysAgo * DAY_MS)
  const daysPastDue = daysBetween(invoice.due_date, todayIn(account.timezone, at))
  const debtor = await tx
    .selectFrom('debtors')
    .select(['name', 'language', 'email'])
    .where('id', '=', invoice.debtor_id)
    .executeTakeFirstOrThrow()
  const recipient = debtor.email
  const invoiceFacts = {
    id: invoice.id,
    number: invoice.number,
    dueDate: invoice.due_date,
    amountDue: invoice.amount_due,
    currency: invoice.currency,
    daysPastDue,
    stage,
    cycle: invoice.chasing_cycle,
  }
  const paymentDetails = await readPaymentDetails(tx, account.id)
  const shownDetails = paymentDetails.filter(({ currency }) => currency === invoice.currency)
  const text = writeReminder({
    language: debtor.language,
    stage,
    creditor: { name: account.name, logo: undefined, replyTo: account.reply_to },
    debtor: { name: debtor.name },
    invoices: [{ ...invoiceFacts, paymentUrl: null }],
    wording: undefined,
    payment: shownDetails,
    unsubscribeUrl: null,
  })
  const row = messageRow(invoice, { stage, status, recipient, daysPastDue, at, ...text })
  await tx.insertInto('messages').values(row).execute()
  const ofMessage = { message_id: row.id, account_id: row.account_id }
  await tx
    .insertInto('message_invoices')
    .values({ ...ofMessage, position: 0, invoice_id: invoice.id })
    .execute()
  await tx
    .insertInto('message_html')
    .values({ ...ofMessage, html: text.html, sender_name: null, logo_id: null })
    .execute()
  if (status === 'delivered') await markReminded(tx, invoice, row)
  if (status === 'bounced') await suppressRecipient(tx, row, now)
  // After a suppressed or bounced message, the same stage is planned again, so `taken_stages` must not contain it.
  if (status !== 'delivered' && status !== 'awaiting_approval') return
  await tx
    .insertInto('taken_stages')
    .values({ ...ofMessage, invoice_id: invoice.id, stage, cycle: invoice.chasing_cycle })
    .execute()
  if (status !== 'awaiting_approval') return
  await markAwaitingApproval(tx, invoice, row)
  const expiresAt = new Date(at.getTime() + APPROVAL_PERIOD_MS).toISOString()
  const facts = { stage, recipient, invoices: [invoiceFacts], timesPutOn: 0, expiresAt }
  await tx
    .insertInto('reminders')
    .values({
      ...ofMessage,
      debtor_id: row.debtor_id,
      facts: JSON.stringify(facts),
      approved_hash: null,
      payment_digest: paymentDetailsDigest(shownDetails),
      // At this time, the send check suppresses the reminder if there was no decision. An earlier send check would only
      // write the text, which is already written here.
      run_at: expiresAt,
      lease: null,
      attempts: 0,
      unknown_outcomes: 0,
      planned_at: row.created_at,
    })
    .execute()
}

/**
 * Records the reminder on the invoice. If a sample payment has paused the reminders about the invoice, the pause is
 * removed, because it must have ended before this reminder was sent.
 */
async function markReminded(tx: Transaction, invoice: InvoiceRow, message: MessageRow) {
  await tx
    .updateTable('invoices')
    .set({
      chasing_stage: message.stage,
      chasing_last_message_at: message.sent_at,
      ...nextRevision(tx, message.created_at),
      ...(invoice.chasing_status === 'paused' && {
        chasing_status: 'active',
        chasing_next_action_at: null,
        chasing_blocked_reason: null,
      }),
    })
    .where('id', '=', invoice.id)
    .execute()
}

async function suppressRecipient(tx: Transaction, message: MessageRow, now: Date) {
  const { account_id: accountId, id: messageId, recipient: address } = message
  if (address === null) return
  const detail = '550 5.1.1 There is no such mailbox.'
  await suppressAddress(tx, { accountId, address, reason: 'bounced', detail, messageId }, now)
}

/** Sets the fields that the planner sets for an invoice whose reminder awaits approval. */
async function markAwaitingApproval(tx: Transaction, invoice: InvoiceRow, message: MessageRow) {
  await tx
    .updateTable('invoices')
    .set({
      chasing_next_stage: message.stage,
      chasing_next_action_at: message.scheduled_for,
      chasing_blocked_reason: 'awaiting_approval',
      ...nextRevision(tx, message.created_at),
    })
    .where('id', '=', invoice.id)
    .execute()
}

interface WrittenReminder {
  readonly stage: SampleMessage['stage']
  readonly status: SampleMessage['status']
  readonly recipient: string | null
  readonly daysPastDue: number
  readonly at: Date
  readonly subject: string
  readonly text: string
}

function messageRow(
  invoice: InvoiceRow,
  { stage, status, recipient, daysPastDue, at: time, subject, text }: WrittenReminder,
): MessageRow {
  const at = time.toISOString()
  const isSuppressed = status === 'suppressed'
  return {
    id: createId('msg'),
    account_id: invoice.account_id,
    debtor_id: invoice.debtor_id,
    channel: 'email',
    direction: 'outbound',
    kind: 'reminder',
    stage,
    status,
    suppression_reason: isSuppressed ? 'no_contact' : null,
    suppression_detail: isSuppressed ? 'the customer has no e-mail address' : null,
    approval_required: stage === 'firm' || stage === 'final' ? 1 : 0,
    approval_status: status === 'awaiting_approval' ? 'pending' : null,
    approval_decided_by: null,
    approval_decided_at: null,
    recipient,
    subject,
    body: text,
    amount_due: invoice.amount_due,
    currency: invoice.currency,
    days_past_due: daysPastDue,
    provider_message_id: null,
    delivered_at: status === 'delivered' ? at : null,
    bounce_type: status === 'bounced' ? 'hard' : null,
    bounce_code: status === 'bounced' ? '5.1.1' : null,
    soft_bounces: 0,
    scheduled_for: at,
    sent_at: status === 'delivered' || status === 'bounced' ? at : null,
    created_at: at,
    updated_at: at,
    revision: 1,
  }
}
