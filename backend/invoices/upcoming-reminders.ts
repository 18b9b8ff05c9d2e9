/**
 * Lists the times from which the next reminders about open invoices may be sent. The planning of reminders has
 * stored these times in the invoices, so reading them is much faster than computing a preview of the reminders.
 */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'

/** The maximum number of invoices that the page Home reads to count the upcoming reminders. */
const INVOICES_MAX = 400

/** The next reminder about one invoice. It may be part of one message about several invoices of the debtor. */
export interface UpcomingReminder {
  readonly debtorId: string
  /** The time from which the reminder may be sent. */
  readonly at: string
}

export interface UpcomingReminders {
  readonly reminders: readonly UpcomingReminder[]
  /** Whether there are more than `INVOICES_MAX` reminders, of which only the earliest are returned. */
  readonly isTruncated: boolean
}

/** Returns the reminders before `until` to debtors that are chased and can be reached, earliest first. */
export async function listUpcomingReminders(
  reader: Reader,
  accountId: string,
  until: Date,
): Promise<UpcomingReminders> {
  const rows = await reader
    .selectFrom('invoices')
    .innerJoin('debtors', 'debtors.id', 'invoices.debtor_id')
    .select(['invoices.debtor_id', 'invoices.chasing_next_action_at as at'])
    .where('invoices.account_id', '=', accountId)
    // The condition contains literals, because a database uses a partial index only if the text of the statement
    // contains the condition of the index.
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
    .limit(INVOICES_MAX + 1)
    .execute()
  const reminders = rows
    .slice(0, INVOICES_MAX)
    .flatMap(({ debtor_id, at }) => (at === null ? [] : [{ debtorId: debtor_id, at }]))
  return { reminders, isTruncated: rows.length > INVOICES_MAX }
}
