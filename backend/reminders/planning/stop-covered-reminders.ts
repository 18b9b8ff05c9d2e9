/**
 * Cancels waiting reminders about invoices that money on account covers. The caller must lock the debtor first, and
 * plan its reminders again after the money is recorded. `payments/settle-and-stop-reminders.ts` cancels reminders about
 * invoices that a payment settles.
 */
import type { Transaction } from '../../database/database.ts'
import { prepared } from '../../database/prepared.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { unindexed } from '../../lists/keyset.ts'
import { cancelMessages, IS_UNSENT, type StoppedMessages } from '../../messages/cancel-messages.ts'
import { type IncomingMoney, readCover } from '../../on-account/cover.ts'
import { readFacts } from './facts.ts'

/**
 * Cancels each waiting reminder that states less money on account for an invoice than now covers it. Reminders that are
 * being sent cannot be cancelled, and are returned as in flight. `incoming` is money that is about to be recorded on
 * account.
 */
export async function stopRemindersCoveredByMoneyOnAccount(
  tx: Transaction,
  { id, account_id: accountId }: Pick<DebtorRow, 'id' | 'account_id'>,
  { incoming, detail }: { readonly incoming?: IncomingMoney; readonly detail: string },
  now: Date,
): Promise<StoppedMessages> {
  const waiting = await readWaiting(tx, { accountId, debtorId: id })
  if (waiting.length === 0) return { cancelledIds: [], inFlightIds: [] }
  const cover = await readCover(tx, id, incoming)
  const outdated = waiting.filter(({ facts }) =>
    readFacts(facts).invoices.some(
      ({ id: invoiceId, onAccount = 0 }) => (cover.get(invoiceId) ?? 0) > onAccount,
    ),
  )
  const [inFlightIds = [], cancelledIds = []] = [true, false].map((isSending) =>
    outdated.filter(({ status }) => (status === 'sending') === isSending).map((row) => row.id),
  )
  if (cancelledIds.length > 0) {
    await cancelMessages(tx, accountId, cancelledIds, detail, now)
  }
  return { cancelledIds, inFlightIds }
}

const readWaiting = prepared(
  (tx: Transaction, { accountId, debtorId }: { accountId: string; debtorId: string }) =>
    tx
      .selectFrom('messages')
      .innerJoin('reminders', 'reminders.message_id', 'messages.id')
      .select(['messages.id', 'messages.status', 'reminders.facts'])
      // An index of the account would contain the messages in the order of their ids, so SQLite would prefer it.
      .where(unindexed('messages.account_id'), '=', accountId)
      .where('messages.debtor_id', '=', debtorId)
      .where('messages.direction', '=', 'outbound')
      .where(IS_UNSENT)
      .orderBy('messages.id'),
)
