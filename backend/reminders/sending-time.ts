import { addDays } from '../calendar/calendar.ts'
import type { DebtorRow, MessageRow, Reader } from '../database/tables.ts'
import { readChasingAccounts } from './planning/planning-data.ts'
import type { WorkingTime } from './planning/working-time.ts'

type WaitingReminder = Pick<MessageRow, 'id' | 'account_id' | 'debtor_id'>

/**
 * Returns the first time, from `now` on, at which the debtor's send window and the daily cap allow the message;
 * undefined if there is no business day within ten years. A safety rail can still block the message, or another
 * reminder to the debtor can be sent first.
 */
export async function earliestSendingTime(
  reader: Reader,
  message: WaitingReminder,
  debtor: Pick<DebtorRow, 'account_id' | 'timezone'>,
  now: Date,
): Promise<Date | undefined> {
  const account = (await readChasingAccounts(reader, [debtor.account_id])).get(debtor.account_id)
  const workingTime = account?.workingTimeOf(debtor)
  if (workingTime === undefined) return undefined
  const today = workingTime.dayOf(now)
  const isCapped = await wasAnotherSentToday(reader, message, workingTime, now)
  return workingTime.firstSlot(isCapped ? addDays(today, 1) : today, now)
}

/**
 * Whether another reminder was sent, or may have been sent, to the debtor today. The daily cap then delays the message
 * to a later day.
 */
export async function wasAnotherSentToday(
  reader: Reader,
  { id, account_id: accountId, debtor_id: debtorId }: WaitingReminder,
  workingTime: WorkingTime,
  now: Date,
): Promise<boolean> {
  const today = workingTime.dayOf(now)
  // Today began less than two days ago in every time zone. The comparison of days below excludes earlier days.
  const since = new Date(now.getTime() - 2 * 86_400_000).toISOString()
  const others = await reader
    .selectFrom('messages')
    .select('sent_at as at')
    .where('account_id', '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where('id', '!=', id)
    .where('direction', '=', 'outbound')
    .where('kind', '=', 'reminder')
    .where('sent_at', '>', since)
    .execute()
  // The invoices also record hand-overs with an unknown outcome, which may have delivered a message. The invoices of
  // this message are excluded, because a hand-over of this message itself may be recorded on them.
  const attempted = await reader
    .selectFrom('invoices')
    .select('chasing_last_message_at as at')
    .where('account_id', '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where('chasing_last_message_at', '>', since)
    .where('id', 'not in', (query) =>
      query.selectFrom('message_invoices').select('invoice_id').where('message_id', '=', id),
    )
    .execute()
  return [...others, ...attempted].some(
    ({ at }) => at !== null && workingTime.dayOf(new Date(at)) === today,
  )
}
