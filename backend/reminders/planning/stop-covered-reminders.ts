import type { Transaction } from '../../database/database.ts'
import { prepared } from '../../database/prepared.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { unindexed } from '../../lists/keyset.ts'
import {
  IS_UNSENT,
  type StoppedMessages,
  stopUnsentMessages,
} from '../../messages/cancel-messages.ts'
import { type IncomingMoney, readCover } from '../../on-account/cover.ts'
import { readFacts } from './facts.ts'

/**
 * Cancels each waiting reminder about an invoice that is covered by more money on account now than when the reminder
 * was planned. Reminders that are already being sent are returned as in flight. `incoming` is money that is about to be
 * recorded on account. `detail` is the reason that the message log shows. The caller must lock the debtor first, and
 * plan its reminders again after the money is recorded.
 */
export async function stopRemindersCoveredByMoneyOnAccount(
  tx: Transaction,
  { id, account_id: accountId }: Pick<DebtorRow, 'id' | 'account_id'>,
  { incoming, detail }: { readonly incoming?: IncomingMoney; readonly detail: string },
  now: Date,
): Promise<StoppedMessages> {
  const unsent = await readUnsent(tx, { accountId, debtorId: id })
  if (unsent.length === 0) return { cancelledIds: [], inFlightIds: [] }
  const cover = await readCover(tx, id, incoming)
  const outdated = unsent.filter(({ facts }) =>
    readFacts(facts).invoices.some(
      ({ id: invoiceId, onAccount = 0 }) => (cover.get(invoiceId) ?? 0) > onAccount,
    ),
  )
  return stopUnsentMessages(tx, accountId, outdated, now, detail)
}

const readUnsent = prepared(
  (tx: Transaction, { accountId, debtorId }: { accountId: string; debtorId: string }) =>
    tx
      .selectFrom('messages')
      .innerJoin('reminders', 'reminders.message_id', 'messages.id')
      .select(['messages.id', 'messages.status', 'reminders.facts'])
      // Without `unindexed`, SQLite would use an index that begins with the account, and read all messages of the
      // account.
      .where(unindexed('messages.account_id'), '=', accountId)
      .where('messages.debtor_id', '=', debtorId)
      .where('messages.direction', '=', 'outbound')
      .where(IS_UNSENT)
      .orderBy('messages.id'),
)
