/**
 * When reminders may leave: on business days, Monday to Friday less the account's holidays, from
 * 08:00 until before 18:00 where the debtor is.
 */
import { addDays, instantOf, todayIn } from '../../calendar/calendar.ts'

const OPENS_AT_HOUR = 8
const CLOSES_AT_HOUR = 18

/** Ten years without a business day end the search: whoever lists every day as a holiday means never. */
const SEARCH_DAYS_MAX = 3660

export interface WorkingTime {
  readonly timezone: string
  dayOf(instant: Date): string
  /** Whether something may leave at this instant. */
  isOpen(instant: Date): boolean
  /**
   * The first instant not before `now` on `day` or later at which something may leave; undefined
   * where every day is a holiday.
   */
  firstSlot(day: string, now: Date): Date | undefined
}

/** What was found once is remembered: make one for many debtors, and not for ever. */
export function createWorkingTime(timezone: string, holidays: readonly string[]): WorkingTime {
  const closed = new Set(holidays)
  const windows = new Map<string, readonly [opens: number, closes: number]>()
  let last: { readonly time: number; readonly day: string } | undefined

  /** Asked again and again for the same instant. */
  function dayOf(instant: Date): string {
    const time = instant.getTime()
    if (last?.time !== time) last = { time, day: todayIn(timezone, instant) }
    return last.day
  }

  function windowOf(day: string): readonly [opens: number, closes: number] {
    const known = windows.get(day)
    if (known !== undefined) return known
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
