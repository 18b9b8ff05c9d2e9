import type { DebtorRow, Reader } from '../database/tables.ts'
import { readChasingAccounts } from './planning/planning-data.ts'

/**
 * Returns the earliest time in the debtor's send window, which may be `now`; undefined if every day is a
 * holiday. Another message on the same day can still delay the sending, and a safety rail can prevent it.
 */
export async function earliestSendingTime(
  reader: Reader,
  debtor: Pick<DebtorRow, 'account_id' | 'timezone'>,
  now: Date,
): Promise<Date | undefined> {
  const account = (await readChasingAccounts(reader, [debtor.account_id])).get(debtor.account_id)
  const workingTime = account?.workingTimeOf(debtor)
  return workingTime?.isOpen(now) ? now : workingTime?.firstSlot(workingTime.dayOf(now), now)
}
