/** Creates sample reminders, which previews and test mails show, for any stage and language. */
import { type SqlBool, sql } from 'kysely'
import { findLogoProperties } from '../../accounts/logo.ts'
import { readPaymentDetails } from '../../accounts/payment-details.ts'
import { senderNameOf } from '../../accounts/sender.ts'
import { addDays, daysBetween, todayIn } from '../../calendar/calendar.ts'
import type { AccountRow, InvoiceRow, Reader } from '../../database/tables.ts'
import { readCover } from '../../on-account/cover.ts'
import { UNSUBSCRIBE_PATH } from '../unsubscribe-links.ts'
import type { WordingKey } from './account-wordings.ts'
import type { ReminderContent, ReminderInvoice } from './reminder-text.ts'
import type { Wording } from './wording.ts'

/**
 * This condition has literals instead of parameters: a database uses a partial index only if the statement contains the
 * condition of the index.
 */
const IS_UNPAID = sql<SqlBool>`invoices.status in ('open', 'partially_paid')`

/** The sample is about this invoice if no invoice is chosen and the account has no unpaid invoice. */
const FICTITIOUS = {
  number: 'INV-1001',
  customer: 'Example Customer',
  amountDue: 125_000,
  daysPastDue: 12,
}

export interface Sample extends WordingKey {
  readonly wording: Wording
  /** If it is null, the sample is about the unpaid invoice that is due first, or about a fictitious invoice. */
  readonly invoiceId: string | null
}

export interface SampleReminder {
  readonly accountId: string
  readonly content: ReminderContent
  readonly invoice: { readonly id: string; readonly number: string } | null
}

/** Resolves to undefined if the chosen invoice does not exist. The unsubscribe link of the sample has no effect. */
export async function createSampleReminder(
  reader: Reader,
  account: AccountRow,
  { stage, language, wording, invoiceId }: Sample,
  baseUrl: string,
  now: Date,
): Promise<SampleReminder | undefined> {
  const today = todayIn(account.timezone, now)
  const found = await findInvoice(reader, account.id, invoiceId)
  if (found === undefined && invoiceId !== null) return undefined
  const invoice: ReminderInvoice =
    found === undefined
      ? fictitiousInvoice(account, today)
      : {
          number: found.number,
          dueDate: found.due_date,
          amountDue: found.amount_due,
          currency: found.currency,
          daysPastDue: daysBetween(found.due_date, today),
          paymentUrl: found.payment_url,
          onAccount: await readOnAccount(reader, found),
        }
  const paymentDetails = await readPaymentDetails(reader, account.id)
  const content = {
    language,
    stage,
    creditor: {
      name: senderNameOf(account),
      logo: await findLogoProperties(reader, account.id, account.logo_id),
      replyTo: account.reply_to,
    },
    debtor: { name: found?.customer ?? FICTITIOUS.customer },
    invoices: [invoice],
    wording,
    payment: paymentDetails.filter(({ currency }) => currency === invoice.currency),
    unsubscribeUrl: `${baseUrl}${UNSUBSCRIBE_PATH}/preview`,
  }
  return {
    accountId: account.id,
    content,
    invoice: found === undefined ? null : { id: found.id, number: found.number },
  }
}

/**
 * Returns the part of the amount due that money on account covers; 0 if it covers the whole amount. No real reminder is
 * sent about such an invoice, so the sample demands the whole amount.
 */
async function readOnAccount(
  reader: Reader,
  { id, debtor_id, amount_due }: Pick<InvoiceRow, 'id' | 'debtor_id' | 'amount_due'>,
): Promise<number> {
  const covered = (await readCover(reader, debtor_id)).get(id) ?? 0
  return covered < amount_due ? covered : 0
}

function fictitiousInvoice(
  { default_currency: currency }: AccountRow,
  today: string,
): ReminderInvoice {
  const { number, amountDue, daysPastDue } = FICTITIOUS
  const dueDate = addDays(today, -daysPastDue)
  return { number, amountDue, currency, dueDate, daysPastDue, paymentUrl: null }
}

async function findInvoice(reader: Reader, accountId: string, invoiceId: string | null) {
  const query = reader
    .selectFrom('invoices')
    .innerJoin('debtors', 'debtors.id', 'invoices.debtor_id')
    .select([
      'invoices.id',
      'invoices.debtor_id',
      'invoices.number',
      'invoices.due_date',
      'invoices.amount_due',
      'invoices.currency',
      'invoices.payment_url',
      'debtors.name as customer',
    ])
    .where('invoices.account_id', '=', accountId)
  if (invoiceId !== null) return query.where('invoices.id', '=', invoiceId).executeTakeFirst()
  return query
    .where(IS_UNPAID)
    .orderBy('invoices.due_date')
    .orderBy('invoices.id')
    .limit(1)
    .executeTakeFirst()
}
