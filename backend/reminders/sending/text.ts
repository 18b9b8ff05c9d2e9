/**
 * The text of a message is written once, before it is sent or approved. While it awaits approval it is
 * written again if what it is made of changes; what a person has approved never changes.
 */
import {
  digestOf,
  type PaymentDetails,
  readPaymentDetails,
} from '../../accounts/payment-details.ts'
import { daysBetween } from '../../calendar/calendar.ts'
import type { Transaction } from '../../database/database.ts'
import { stampOf } from '../../database/stamp.ts'
import type { DebtorRow, MessageRow } from '../../database/tables.ts'
import type { UnsubscribeLinks } from '../../mail/unsubscribe-links.ts'
import { findWording } from '../../mail/wording/account-wordings.ts'
import { speak } from '../../mail/wording/languages.ts'
import { writeReminder } from '../../mail/wording/reminder-text.ts'
import type { Facts } from '../planning/facts.ts'
import type { ChasingAccount } from '../planning/situations.ts'

export interface Writable {
  readonly message: MessageRow
  readonly facts: Facts
  readonly debtor: DebtorRow
  readonly account: ChasingAccount
}

/** Returns the message with its text. The caller has locked the debtor. */
export async function ensureText(
  tx: Transaction,
  links: UnsubscribeLinks,
  writable: Writable,
  now: Date,
): Promise<MessageRow> {
  return writable.message.body === null ? writeText(tx, links, writable, now) : writable.message
}

/** Writes the text, also in the place of an earlier one. The caller has locked the debtor. */
export async function writeText(
  tx: Transaction,
  links: UnsubscribeLinks,
  writable: Writable,
  now: Date,
): Promise<MessageRow> {
  const { message, facts, debtor, account } = writable
  const { id, account_id: accountId } = message
  const today = account.timeOf(debtor).dayOf(now)
  const paymentUrls = await readPaymentUrls(tx, facts)
  const payment = await readShownDetails(tx, writable)
  const invoices = facts.invoices.map((invoice) => ({
    ...invoice,
    daysPastDue: daysBetween(invoice.dueDate, today),
    onAccount: invoice.onAccount ?? 0,
    paymentUrl: paymentUrls.get(invoice.id) ?? null,
  }))
  const language = speak(debtor.language)
  const wording = await findWording(tx, accountId, { stage: facts.stage, language })
  const { subject, text, html } = writeReminder({
    language,
    stage: facts.stage,
    creditor: { name: account.row.name, replyTo: account.row.reply_to },
    debtor: { name: debtor.name },
    invoices,
    wording,
    payment,
    unsubscribeUrl:
      facts.recipient === null ? null : links.linkFor({ accountId, address: facts.recipient }),
  })
  const written = {
    subject,
    body: text,
    days_past_due: Math.max(...invoices.map(({ daysPastDue }) => daysPastDue)),
  }
  const stamped = await tx
    .updateTable('messages')
    .set({ ...written, ...stampOf(tx, now.toISOString()) })
    .where('id', '=', id)
    .returning(['updated_at', 'revision'])
    .executeTakeFirstOrThrow()
  await tx
    .insertInto('message_html')
    .values({ message_id: id, account_id: accountId, html })
    .onConflict((conflict) => conflict.column('message_id').doUpdateSet({ html }))
    .execute()
  await tx
    .updateTable('reminders')
    .set({ payment_digest: digestOf(payment) })
    .where('message_id', '=', id)
    .execute()
  return { ...message, ...written, ...stamped }
}

/** Whether the written text shows other payment details than the account has now. */
export async function showsOldDetails(
  tx: Transaction,
  writable: Writable,
  writtenDigest: string | null,
): Promise<boolean> {
  if (writable.message.body === null) return false
  return digestOf(await readShownDetails(tx, writable)) !== writtenDigest
}

/** Reads the details for the currencies of the message. */
async function readShownDetails(
  tx: Transaction,
  { message, facts }: Writable,
): Promise<PaymentDetails[]> {
  const all = await readPaymentDetails(tx, message.account_id)
  return all.filter(({ currency }) =>
    facts.invoices.some((invoice) => invoice.currency === currency),
  )
}

export async function readHtml(tx: Transaction, messageId: string): Promise<string> {
  const { html } = await tx
    .selectFrom('message_html')
    .select('html')
    .where('message_id', '=', messageId)
    .executeTakeFirstOrThrow()
  return html
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
