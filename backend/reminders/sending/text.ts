/**
 * Writes the text of a message before the message is sent or approved. While the message awaits approval, the text is
 * written again if the wording or the data in the text changes. An approved text never changes. If a message
 * needs no approval, its text is written again for a retry on a later day, unless an earlier attempt may have arrived.
 */
import { findLogoProperties } from '../../accounts/logo.ts'
import {
  type PaymentDetails,
  paymentDetailsDigest,
  readPaymentDetails,
} from '../../accounts/payment-details.ts'
import { senderNameOf } from '../../accounts/sender.ts'
import { daysBetween } from '../../calendar/calendar.ts'
import type { Transaction } from '../../database/database.ts'
import { nextRevision } from '../../database/revision.ts'
import type { DebtorRow, MessageHtmlRow, MessageRow, ReminderRow } from '../../database/tables.ts'
import type { UnsubscribeLinks } from '../../mail/unsubscribe-links.ts'
import { findWording } from '../../mail/wording/account-wordings.ts'
import { chooseLanguage } from '../../mail/wording/languages.ts'
import { writeReminder } from '../../mail/wording/reminder-text.ts'
import type { Facts } from '../planning/facts.ts'
import type { ChasingAccount } from '../planning/planning-data.ts'

export interface MessageToWrite {
  readonly message: MessageRow
  readonly facts: Facts
  readonly debtor: DebtorRow
  readonly account: ChasingAccount
}

/**
 * Writes the text of the message if it has none, or if its days past due are outdated and the text may still change.
 * Returns the message. The caller must have locked the debtor.
 */
export async function ensureText(
  tx: Transaction,
  links: UnsubscribeLinks,
  input: MessageToWrite & { readonly reminder: Pick<ReminderRow, 'unknown_outcomes'> },
  now: Date,
): Promise<MessageRow> {
  const { message, reminder } = input
  // A text that requires approval has been approved by now, and must not change. If an earlier attempt may have
  // arrived, the recipient must recognize the second mail as the same one.
  const isFixed = message.approval_required === 1 || reminder.unknown_outcomes > 0
  const isOutdated = message.days_past_due !== daysPastDueOf(input, now)
  const mustWrite = message.body === null || (isOutdated && !isFixed)
  return mustWrite ? writeText(tx, links, input, now) : message
}

/** Returns the days past due of the invoice that was due first. */
function daysPastDueOf({ facts, account, debtor }: MessageToWrite, now: Date): number {
  const today = account.workingTimeOf(debtor).dayOf(now)
  return Math.max(...facts.invoices.map(({ dueDate }) => daysBetween(dueDate, today)))
}

/** Replaces an earlier text. The caller must have locked the debtor. */
export async function writeText(
  tx: Transaction,
  links: UnsubscribeLinks,
  input: MessageToWrite,
  now: Date,
): Promise<MessageRow> {
  const { message, facts, debtor, account } = input
  const { id, account_id: accountId } = message
  const today = account.workingTimeOf(debtor).dayOf(now)
  const paymentUrls = await readPaymentUrls(tx, facts)
  const paymentDetails = await readCurrentPaymentDetails(tx, input)
  const invoices = facts.invoices.map((invoice) => ({
    ...invoice,
    daysPastDue: daysBetween(invoice.dueDate, today),
    onAccount: invoice.onAccount ?? 0,
    paymentUrl: paymentUrls.get(invoice.id) ?? null,
  }))
  const language = chooseLanguage(debtor.language)
  const wording = await findWording(tx, accountId, { stage: facts.stage, language })
  const { sender_name, logo_id } = account.row
  const sender = { sender_name, logo_id }
  const { subject, text, html } = writeReminder({
    language,
    stage: facts.stage,
    creditor: {
      name: senderNameOf(account.row),
      logo: await findLogoProperties(tx, accountId, logo_id),
      replyTo: account.row.reply_to,
    },
    debtor: { name: debtor.name },
    invoices,
    wording,
    payment: paymentDetails,
    unsubscribeUrl:
      facts.recipient === null ? null : links.linkFor({ accountId, address: facts.recipient }),
  })
  const written = {
    subject,
    body: text,
    days_past_due: daysPastDueOf(input, now),
  }
  const revised = await tx
    .updateTable('messages')
    .set({ ...written, ...nextRevision(tx, now.toISOString()) })
    .where('id', '=', id)
    .returning(['updated_at', 'revision'])
    .executeTakeFirstOrThrow()
  await tx
    .insertInto('message_html')
    .values({ message_id: id, account_id: accountId, html, ...sender })
    .onConflict((conflict) => conflict.column('message_id').doUpdateSet({ html, ...sender }))
    .execute()
  await tx
    .updateTable('reminders')
    .set({ payment_digest: paymentDetailsDigest(paymentDetails) })
    .where('message_id', '=', id)
    .execute()
  return { ...message, ...written, ...revised }
}

/** Whether the message's text shows payment details that the account has changed since the text was written. */
export async function showsOutdatedPaymentDetails(
  tx: Transaction,
  input: MessageToWrite,
  shownDigest: string | null,
): Promise<boolean> {
  if (input.message.body === null) return false
  return paymentDetailsDigest(await readCurrentPaymentDetails(tx, input)) !== shownDigest
}

/** Reads the account's current payment details for the currencies of the message. */
async function readCurrentPaymentDetails(
  tx: Transaction,
  { message, facts }: MessageToWrite,
): Promise<PaymentDetails[]> {
  const all = await readPaymentDetails(tx, message.account_id)
  return all.filter(({ currency }) =>
    facts.invoices.some((invoice) => invoice.currency === currency),
  )
}

export async function readMessageHtml(tx: Transaction, messageId: string): Promise<MessageHtmlRow> {
  return tx
    .selectFrom('message_html')
    .selectAll()
    .where('message_id', '=', messageId)
    .executeTakeFirstOrThrow()
}

async function readPaymentUrls(tx: Transaction, { invoices }: Facts) {
  const rows = await tx
    .selectFrom('invoices')
    .select(['id', 'payment_url'])
    .where(
      'id',
      'in',
      invoices.map(({ id }) => id),
    )
    .execute()
  return new Map(rows.map((row) => [row.id, row.payment_url]))
}
