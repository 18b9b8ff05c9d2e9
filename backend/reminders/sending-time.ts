import type { DebtorRow, Reader } from '../database/tables.ts'
import { readChasingAccounts } from './planning/planning-data.ts'

/**
 * Returns the first time, from `now` on, at which the debtor's send window is open; undefined if every day is a
 * holiday. A message that is due then can still be delayed by another message on the same day, or blocked by a safety
 * rail.
 */
export async function earliestSendingTime(
  reader: Reader,
  debtor: Pick<DebtorRow, 'account_id' | 'timezone'>,
  now: Date,
): Promise<Date | undefined> {
  const account = (await readChasingAccounts(reader, [debtor.account_id])).get(debtor.account_id)
  const workingTime = account?.workingTimeOf(debtor)
  return workingTime?.firstSlot(workingTime.dayOf(now), now)
}
