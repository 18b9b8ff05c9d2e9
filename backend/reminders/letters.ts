/**
 * Changes what reminders say. Each change applies from the next reminder on; reminders that await approval
 * are written again, so that a person approves the current text.
 */
import { type SqlBool, sql } from 'kysely'
import type { Act } from '../accounts/audit.ts'
import {
  type PaymentDetailsInput,
  removePaymentDetails,
  setPaymentDetails,
} from '../accounts/payment-details.ts'
import type { Reader, Transaction } from '../database/database.ts'
import { setWording, type WordingKey } from '../mail/wording/account-wordings.ts'
import type { Wording } from '../mail/wording/wording.ts'

/** An empty input removes the details. Throws as `setPaymentDetails` and `removePaymentDetails` do. */
export async function changePaymentDetails(
  tx: Transaction,
  accountId: string,
  currency: string,
  input: PaymentDetailsInput | null,
  act: Act,
): Promise<void> {
  if (input === null) await removePaymentDetails(tx, accountId, currency, act)
  else if (!(await setPaymentDetails(tx, accountId, currency, input, act))) return
  await rewriteWaiting(tx, accountId, act.now)
}

/**
 * Null brings the default back. What a person has approved is sent as it was approved. Throws as
 * `setWording` does.
 */
export async function changeWording(
  tx: Transaction,
  accountId: string,
  key: WordingKey,
  input: Partial<Wording> | null,
  act: Act,
): Promise<void> {
  if (await setWording(tx, accountId, key, input, act)) await rewriteWaiting(tx, accountId, act.now)
}

/**
 * Makes the gate write the texts of messages that await approval again. The caller has locked the account,
 * which every gate locks before it reads a text.
 */
async function rewriteWaiting(tx: Transaction, accountId: string, now: Date): Promise<void> {
  await tx
    .updateTable('reminders')
    .set({ run_at: now.toISOString() })
    .where('account_id', '=', accountId)
    .where('run_at', '>', now.toISOString())
    .where('message_id', 'in', (select) =>
      select
        .selectFrom('messages')
        .select('id')
        .where('account_id', '=', accountId)
        .where('status', '=', 'awaiting_approval'),
    )
    .execute()
}

/** A literal, since the partial index is used only if the statement's text implies its condition. */
const IS_OPEN = sql<SqlBool>`status in ('open', 'partially_paid')`

/** Invoices of a currency that are read, to bound the cost. */
const INVOICES_MAX = 500

/**
 * Returns the currencies in which reminders demand money without saying how to pay: the account has no
 * payment details for them, and an open invoice has no payment link of its own.
 */
export async function listCurrenciesWithoutPayment(
  reader: Reader,
  accountId: string,
): Promise<string[]> {
  // Stored totals: the invoices of an account may be a million.
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
  const lacking = await Promise.all(
    owed.map(async ({ currency }) => {
      const some = reader
        .selectFrom('invoices')
        .select(['payment_url'])
        .where('account_id', '=', accountId)
        .where('currency', '=', currency)
        .where(IS_OPEN)
        .limit(INVOICES_MAX)
      const found = await reader
        .selectFrom(some.as('some'))
        .select('payment_url')
        .where('payment_url', 'is', null)
        .limit(1)
        .executeTakeFirst()
      return found === undefined ? [] : [currency]
    }),
  )
  return lacking.flat()
}
