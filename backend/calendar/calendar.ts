/**
 * Calendar dates are `YYYY-MM-DD` text in an account's time zone. Instants are `Date`, or ISO 8601 text in
 * UTC with milliseconds. For both, the order of the texts is the order in time.
 */
import { dateFormats } from './date-formats.ts'

const DATE = /^\d{4}-\d{2}-\d{2}$/
const INSTANT =
  /^(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const QUARTER_MS = 900_000
const LAST_DAY = Date.UTC(9999, 11, 31)

/** Whether the text is an existing date: 2026-02-30 is not. */
export function isCalendarDate(text: string): boolean {
  if (!DATE.test(text)) return false
  const time = Date.parse(`${text}T00:00:00Z`)
  // Days out of range roll over into the next month, so the result must equal the input.
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
}

/** Parses a time of RFC 3339 with an offset. Returns undefined for other text. */
export function parseInstant(text: string): Date | undefined {
  const [, date] = INSTANT.exec(text) ?? []
  if (date === undefined || !isCalendarDate(date)) return undefined
  const instant = new Date(text.toUpperCase())
  const year = instant.getUTCFullYear()
  // An offset can move an instant out of the years for which text order is time order.
  return year >= 0 && year <= 9999 ? instant : undefined
}

/** Whether the text is an IANA name such as `Europe/Amsterdam` or `UTC`. An offset is not a time zone. */
export function isTimezone(name: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+)*$/.test(name)) return false
  try {
    dayFormat(name)
    return true
  } catch {
    return false
  }
}

/** The calendar date at `now` in the time zone. */
export function todayIn(timezone: string, now: Date): string {
  return dayFormat(timezone).format(now)
}

/** The result is at most 9999-12-31: for later dates, text order is not time order. */
export function addDays(date: string, days: number): string {
  const time = Math.min(Date.parse(`${date}T00:00:00Z`) + days * DAY_MS, LAST_DAY)
  return new Date(time).toISOString().slice(0, 10)
}

/** Whole days from `from` to `to`; negative if `to` is earlier. */
export function daysBetween(from: string, to: string): number {
  return (Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / DAY_MS
}

/** The first instant of the date in the time zone, even if the clocks skip midnight. */
export function startOfDay(date: string, timezone: string): Date {
  const asUtc = Date.parse(`${date}T00:00:00Z`)
  // Current UTC offsets are multiples of a quarter hour from -12 to +14 hours, so the first instant lies between
  // these two.
  let early = asUtc - 15 * HOUR_MS
  let late = asUtc + 13 * HOUR_MS
  while (late - early > QUARTER_MS) {
    const middle = early + Math.floor((late - early) / 2 / QUARTER_MS) * QUARTER_MS
    if (todayIn(timezone, new Date(middle)) < date) early = middle
    else late = middle
  }
  return new Date(late)
}

/**
 * The instant at which the local time is `hour` on the date. If the clocks skip this hour, the result is the instant
 * at which they show an hour later or, in time zones west of UTC, an hour earlier.
 */
export function instantOf(date: string, hour: number, timezone: string): Date {
  const localAsUtc = Date.parse(`${date}T00:00:00Z`) + hour * HOUR_MS
  // The offset depends on the instant, so it is computed a second time at the first result.
  const estimate = localAsUtc - offsetAt(localAsUtc, timezone)
  return new Date(localAsUtc - offsetAt(estimate, timezone))
}

/** How far local time is ahead of UTC, in milliseconds. */
function offsetAt(time: number, timezone: string): number {
  const localTime = clockFormat(timezone).format(time)
  return Date.parse(`${localTime.replace(' ', 'T')}Z`) - Math.floor(time / 1000) * 1000
}

const DAY = { year: 'numeric', month: '2-digit', day: '2-digit' } as const
const TIME = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const

const LOCALE = 'sv-SE-u-ca-iso8601-nu-latn'
const dayFormat = dateFormats(LOCALE, DAY)
const clockFormat = dateFormats(LOCALE, { ...DAY, ...TIME })
