/**
 * Counts the debtors to be reminded on each of the next days. Reads the times that planning has stored in the invoices,
 * which is much faster than computing a preview of the reminders.
 */
import { type SqlBool, sql } from 'kysely'
import { addDays, startOfDay, todayIn } from '../calendar/calendar.ts'
import type { Reader } from '../database/database.ts'
import type { AccountRow } from '../database/tables.ts'

/** The next reminder about one invoice. It may be part of one message about several invoices of the debtor. */
interface UpcomingReminder {
  readonly debtorId: string
  /** The time from which the reminder may be sent. */
  readonly at: string
}

interface UpcomingReminders {
  readonly reminders: readonly UpcomingReminder[]
  /** Whether there are more reminders than `max`. If there are, only the earliest are returned. */
  readonly isTruncated: boolean
}

/**
 * Returns the reminders before `until` to debtors that are chased and can be reached, earliest first. Omits reminders
 * that are blocked, e.g. because they await approval.
 */
async function listUpcomingReminders(
  reader: Reader,
  accountId: string,
  until: Date,
  max: number,
): Promise<UpcomingReminders> {
  const rows = await reader
    .selectFrom('invoices')
    .innerJoin('debtors', 'debtors.id', 'invoices.debtor_id')
    .select(['invoices.debtor_id', 'invoices.chasing_next_action_at as at'])
    .where('invoices.account_id', '=', accountId)
    // Only literals, not parameters, match the condition of a partial index.
    .where(
      sql<SqlBool>`invoices.status in ('open', 'partially_paid')
        and invoices.chasing_status = 'active' and invoices.chasing_next_action_at is not null`,
    )
    .where('invoices.chasing_next_action_at', '<', until.toISOString())
    .where('invoices.chasing_blocked_reason', 'is', null)
    .where('debtors.status', '=', 'active')
    .where('debtors.chasing_status', '=', 'active')
    .where('debtors.contactability_email', '=', 'ok')
    .orderBy('invoices.chasing_next_action_at')
    .limit(max + 1)
    .execute()
  const reminders = rows
    .slice(0, max)
    .flatMap(({ debtor_id, at }) => (at === null ? [] : [{ debtorId: debtor_id, at }]))
  return { reminders, isTruncated: rows.length > max }
}

/**
 * How many debtors have a reminder on each day. If not all invoices were read, `isTruncated` is true, and the counts of
 * the last days may be too low.
 */
export interface UpcomingDays {
  readonly days: readonly { readonly date: string; readonly debtors: number }[]
  readonly isTruncated: boolean
}

/**
 * Counts the debtors to be reminded on each of `days` days, of which the first is today. Reads only the `max` invoices
 * with the earliest reminders. Debtors are counted rather than invoices, because a debtor receives at most one reminder
 * a day.
 */
export async function countUpcomingDebtors(
  reader: Reader,
  { id, timezone }: Pick<AccountRow, 'id' | 'timezone'>,
  now: Date,
  { days: dayCount, max }: { readonly days: number; readonly max: number },
): Promise<UpcomingDays> {
  const today = todayIn(timezone, now)
  const until = startOfDay(addDays(today, dayCount), timezone)
  const { reminders, isTruncated } = await listUpcomingReminders(reader, id, until, max)
  const debtors = new Map<string, Set<string>>()
  // Many reminders have the same time, so the day of each time is computed only once.
  for (const [at, atThisTime] of Map.groupBy(reminders, (reminder) => reminder.at)) {
    const day = todayIn(timezone, new Date(at))
    // A reminder whose time has already passed is sent today.
    const date = day < today ? today : day
    const ofDay = debtors.get(date) ?? new Set()
    for (const { debtorId } of atThisTime) ofDay.add(debtorId)
    debtors.set(date, ofDay)
  }
  const days = Array.from({ length: dayCount }, (_, index) => {
    const date = addDays(today, index)
    return { date, debtors: debtors.get(date)?.size ?? 0 }
  })
  return { days, isTruncated }
}
