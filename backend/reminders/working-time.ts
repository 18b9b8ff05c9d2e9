/**
 * When reminders may leave: on business days, Monday to Friday less the account's holidays, from
 * 08:00 until before 18:00 where the debtor is.
 */
import { addDays, todayIn } from '../calendar/calendar.ts'

const OPENS_AT_HOUR = 8
const CLOSES_AT_HOUR = 18
const HOUR_MS = 3_600_000

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
  const format = clockFormat(timezone)
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
      instantOf(day, OPENS_AT_HOUR, format),
      instantOf(day, CLOSES_AT_HOUR, format),
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

/** Of a wall clock that shows this hour of the day; where clocks skip it, an hour later. */
function instantOf(day: string, hour: number, format: Intl.DateTimeFormat): number {
  const wanted = Date.parse(`${day}T00:00:00Z`) + hour * HOUR_MS
  // The offset there and then is known only once the instant is: a second look settles it.
  const near = wanted - offsetAt(wanted, format)
  return wanted - offsetAt(near, format)
}

/** What the wall clock is ahead of UTC. */
function offsetAt(time: number, format: Intl.DateTimeFormat): number {
  return Date.parse(`${format.format(time).replace(' ', 'T')}Z`) - Math.floor(time / 1000) * 1000
}

/** Making a format costs 50 µs. Bounded by the time zones of accounts and debtors. */
const clockFormats = new Map<string, Intl.DateTimeFormat>()

function clockFormat(timezone: string): Intl.DateTimeFormat {
  const known = clockFormats.get(timezone)
  if (known !== undefined) return known
  const format = new Intl.DateTimeFormat('sv-SE-u-ca-iso8601-nu-latn', {
    timeZone: timezone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  })
  clockFormats.set(timezone, format)
  return format
}
