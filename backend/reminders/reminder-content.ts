/**
 * Changes data on which the recipients, texts or times of reminders depend. Messages that await approval become due
 * now: the send check then writes their texts again, so that a person approves the current text. Approved texts do not
 * change. If a time zone changes, messages that are ready to send also become due now, so that the send check decides
 * on their time again.
 */

import { type SqlBool, sql } from 'kysely'
import { changeAccountProfile } from '../accounts/account-profile.ts'
import { lockAccount } from '../accounts/accounts.ts'
import type { ActionContext } from '../accounts/audit.ts'
import {
  type PaymentDetailsInput,
  readPaymentDetails,
  removePaymentDetails,
  setPaymentDetails,
} from '../accounts/payment-details.ts'
import { setLogo, setSenderName } from '../accounts/sender.ts'
import type { Reader, Transaction } from '../database/database.ts'
import type { AccountRow, DebtorRow } from '../database/tables.ts'
import { getLockedDebtor } from '../debtors/change.ts'
import { type DebtorDetails, editDebtor } from '../debtors/details.ts'
import { noticeActorOf, recordNotice } from '../mail/notices.ts'
import { setWording, type WordingKey } from '../mail/wording/account-wordings.ts'
import type { Wording } from '../mail/wording/wording.ts'
import type { JsonObject } from '../validation/json.ts'
import { requestPlanning } from './account-blocks.ts'
import {
  rescheduleMessagesReadyToSend,
  rescheduleUnapprovedMessages,
} from './reschedule-messages.ts'

/**
 * If `input` is null, removes the details. The send check cancels an approved message that shows the former details,
 * and a new message must be approved. Throws the same problems as `setPaymentDetails` and `removePaymentDetails`.
 */
export async function changePaymentDetails(
  tx: Transaction,
  accountId: string,
  currency: string,
  input: PaymentDetailsInput | null,
  actionContext: ActionContext,
): Promise<void> {
  if (input === null) await removePaymentDetails(tx, accountId, currency, actionContext)
  else if (!(await setPaymentDetails(tx, accountId, currency, input, actionContext))) return
  await notifyOfPaymentDetails(tx, accountId, currency.toUpperCase(), actionContext)
  await rescheduleUnapprovedMessages(tx, accountId, actionContext.now)
}

/** How many of the last characters of an account number the notice contains, so that the Admins can recognize it. */
const ENDING_LENGTH = 4

/** Notifies the other Admins, because a changed account number could divert payments. */
async function notifyOfPaymentDetails(
  tx: Transaction,
  accountId: string,
  currency: string,
  actionContext: ActionContext,
): Promise<void> {
  const all = await readPaymentDetails(tx, accountId)
  const stored = all.find((details) => details.currency === currency)
  const current =
    stored === undefined
      ? null
      : {
          account_ending: stored.account_number?.slice(-ENDING_LENGTH) ?? null,
          has_link: stored.payment_link !== null,
        }
  const detail = { currency, now: current, by: noticeActorOf(actionContext) }
  await recordNotice(
    tx,
    { accountId, kind: 'payment_details.changed', subjectId: accountId, detail },
    actionContext.now,
  )
}

/** If `input` is null, restores the default. Throws the same problems as `setWording`. */
export async function changeWording(
  tx: Transaction,
  accountId: string,
  key: WordingKey,
  input: Partial<Wording> | null,
  actionContext: ActionContext,
): Promise<void> {
  if (await setWording(tx, accountId, key, input, actionContext))
    await rescheduleUnapprovedMessages(tx, accountId, actionContext.now)
}

/**
 * The name in the profile is the sender's name of reminders, unless the account has set another one. Throws the same
 * problems as `changeAccountProfile`.
 */
export async function changeProfile(
  tx: Transaction,
  accountId: string,
  input: JsonObject,
  actionContext: ActionContext,
): Promise<AccountRow> {
  const before = await lockAccount(tx, accountId)
  const after = await changeAccountProfile(tx, accountId, input, actionContext)
  const isTimezoneChanged = after.timezone !== before.timezone
  if (isTimezoneChanged) {
    await requestPlanning(tx, accountId)
    await rescheduleMessagesReadyToSend(tx, accountId, actionContext.now)
  }
  if (isTimezoneChanged || after.name !== before.name)
    await rescheduleUnapprovedMessages(tx, accountId, actionContext.now)
  return after
}

/** The details of a debtor on which the recipient, the text or the time of a reminder depends. */
const DETAILS_OF_REMINDERS = ['name', 'email', 'language', 'timezone'] as const

/** `editDebtor` schedules planning of the debtor. Throws the same problems as `editDebtor`. */
export async function changeDebtorDetails(
  tx: Transaction,
  accountId: string,
  debtorId: string,
  details: DebtorDetails,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  const before = await getLockedDebtor(tx, accountId, debtorId)
  const after = await editDebtor(tx, accountId, debtorId, details, actionContext)
  const isOutdated = DETAILS_OF_REMINDERS.some((name) => after[name] !== before[name])
  if (isOutdated) await rescheduleUnapprovedMessages(tx, accountId, actionContext.now, debtorId)
  if (after.timezone !== before.timezone)
    await rescheduleMessagesReadyToSend(tx, accountId, actionContext.now, debtorId)
  return after
}

/**
 * If `name` is null, the account's name becomes the sender's name again. Throws the same problems as `setSenderName`.
 */
export async function changeSenderName(
  tx: Transaction,
  accountId: string,
  name: string | null,
  actionContext: ActionContext,
): Promise<void> {
  if (await setSenderName(tx, accountId, name, actionContext))
    await rescheduleUnapprovedMessages(tx, accountId, actionContext.now)
}

/** If `content` is null, removes the logo. Throws the same problems as `setLogo`. */
export async function changeLogo(
  tx: Transaction,
  accountId: string,
  content: Buffer | null,
  actionContext: ActionContext,
): Promise<void> {
  if (await setLogo(tx, accountId, content, actionContext))
    await rescheduleUnapprovedMessages(tx, accountId, actionContext.now)
}

/**
 * This condition has literals instead of parameters: a database uses a partial index only if the statement contains the
 * condition of the index.
 */
const IS_OPEN = sql<SqlBool>`status in ('open', 'partially_paid')`

/** Limits the open invoices that are checked per currency, because there may be a million. */
const INVOICES_MAX = 500

/**
 * Returns the currencies in which reminders demand money without saying how to pay: the account has no payment details
 * for the currency, and an open invoice in this currency has no payment link of its own. At most `INVOICES_MAX` open
 * invoices per currency are checked.
 */
export async function listCurrenciesWithoutPaymentDetails(
  reader: Reader,
  accountId: string,
): Promise<string[]> {
  // `due_totals` has the totals of the open invoices, so that these need not be added up.
  const owed = await reader
    .selectFrom('due_totals')
    .select('currency')
    .distinct()
    .where('account_id', '=', accountId)
    .where('invoices', '>', 0)
    .where('currency', 'not in', (select) =>
      select
        .selectFrom('payment_details')
        .select('payment_details.currency')
        .where('payment_details.account_id', '=', accountId),
    )
    .orderBy('currency')
    .execute()
  const missing = await Promise.all(
    owed.map(async ({ currency }) => {
      const openInvoices = reader
        .selectFrom('invoices')
        .select(['payment_url'])
        .where('account_id', '=', accountId)
        .where('currency', '=', currency)
        .where(IS_OPEN)
        .limit(INVOICES_MAX)
      const withoutLink = await reader
        .selectFrom(openInvoices.as('open_invoices'))
        .select('payment_url')
        .where('payment_url', 'is', null)
        .limit(1)
        .executeTakeFirst()
      return withoutLink === undefined ? [] : [currency]
    }),
  )
  return missing.flat()
}
