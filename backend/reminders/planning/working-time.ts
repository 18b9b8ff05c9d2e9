/**
 * The send window is open on business days (Monday to Friday, except the account's holidays), from 08:00 to 18:00 in
 * the time zone that `sendingTimezone` returns.
 */
import { addDays, instantOf, parseTimezone, todayIn } from '../../calendar/calendar.ts'
import { UnknownTimezone } from '../../calendar/date-formats.ts'
import type { DebtorRow } from '../../database/tables.ts'

const OPENS_AT_HOUR = 8
const CLOSES_AT_HOUR = 18

/** Ten years. */
const SEARCH_DAYS_MAX = 3660

export interface WorkingTime {
  readonly timezone: string
  dayOf(instant: Date): string
  isOpen(instant: Date): boolean
  /**
   * Returns the first instant at which the send window is open, at or after `now`, and on `day` or later; undefined if
   * there is no business day within ten years.
   */
  firstSlot(day: string, now: Date): Date | undefined
}

/**
 * Returns the debtor's own time zone, otherwise the account's. A stored time zone may be unknown to this version of
 * Node.js, e.g. after a downgrade. If the debtor's is unknown, the account's replaces it, because only sending times
 * depend on the debtor's. If the account's is unknown, throws `UnknownTimezone`, because due dates depend on it.
 */
export function sendingTimezone(
  { timezone }: Pick<DebtorRow, 'timezone'>,
  accountTimezone: string,
): string {
  // Without this check, a reminder to a debtor with its own time zone would be handed over twice. After the first
  // hand-over, planning would fail, because it needs the account's time zone, and the hand-over could not be recorded.
  if (parseTimezone(accountTimezone) === undefined) throw new UnknownTimezone(accountTimezone)
  return timezone === null || parseTimezone(timezone) === undefined ? accountTimezone : timezone
}

/** Use the returned object for one batch of debtors only, because the size of its cache is not limited. */
export function createWorkingTime(timezone: string, holidays: readonly string[]): WorkingTime {
  const closed = new Set(holidays)
  const windows = new Map<string, readonly [opens: number, closes: number]>()
  const days = new Map<number, string>()

  function dayOf(instant: Date): string {
    const time = instant.getTime()
    const cached = days.get(time)
    if (cached !== undefined) return cached
    const day = todayIn(timezone, instant)
    days.set(time, day)
    return day
  }

  function windowOf(day: string): readonly [opens: number, closes: number] {
    const cached = windows.get(day)
    if (cached !== undefined) return cached
    const window = [
      instantOf(day, OPENS_AT_HOUR, timezone).getTime(),
      instantOf(day, CLOSES_AT_HOUR, timezone).getTime(),
    ] as const
    windows.set(day, window)
    return window
  }

  const isBusinessDay = (day: string) => !closed.has(day) && !isWeekend(day)

  return {
    timezone,
    dayOf,
    isOpen(instant) {
      const day = dayOf(instant)
      const [opens, closes] = windowOf(day)
      return isBusinessDay(day) && opens <= instant.getTime() && instant.getTime() < closes
    },
    firstSlot(day, now) {
      const today = dayOf(now)
      let candidate = day < today ? today : day
      for (let searched = 0; searched < SEARCH_DAYS_MAX; searched++) {
        if (isBusinessDay(candidate)) {
          const [opens, closes] = windowOf(candidate)
          if (now.getTime() < closes) return new Date(Math.max(opens, now.getTime()))
        }
        candidate = addDays(candidate, 1)
      }
      return undefined
    },
  }
}

function isWeekend(day: string): boolean {
  const weekday = new Date(`${day}T00:00:00Z`).getUTCDay()
  return weekday === 0 || weekday === 6
}
