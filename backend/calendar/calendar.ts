/**
 * Calendar dates are `YYYY-MM-DD` text in the time zone of an account or, for sending times, of a debtor. Instants are
 * `Date`, or ISO 8601 text in UTC with milliseconds. As text, both sort chronologically.
 */
import { dateFormats } from './date-formats.ts'

const DATE = /^\d{4}-\d{2}-\d{2}$/
const INSTANT =
  /^(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const LAST_DAY = Date.UTC(9999, 11, 31)
const LAST_INSTANT = LAST_DAY + DAY_MS - 1
/** Between these instants, the year of the local time has four digits in every time zone. */
const FIRST_PARSABLE = Date.UTC(1000, 0, 2)
const LAST_PARSABLE = Date.UTC(9999, 11, 30)

/** Whether the text is an existing date: 2026-02-30 is not. */
export function isCalendarDate(text: string): boolean {
  if (!DATE.test(text)) return false
  const time = Date.parse(`${text}T00:00:00Z`)
  // Days out of range roll over into the next month, so the result must equal the input.
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
}

/** Parses a time of RFC 3339 with an offset, rounded down to milliseconds. */
export function parseInstant(text: string): Date | undefined {
  const [, date] = INSTANT.exec(text) ?? []
  if (date === undefined || !isCalendarDate(date)) return undefined
  const instant = new Date(text.toUpperCase())
  const year = instant.getUTCFullYear()
  // An offset can move an instant out of the years for which text order is time order.
  return year >= 0 && year <= 9999 ? instant : undefined
}

/** Like `parseInstant`, but rounds up to milliseconds instead of down. */
export function parseInstantRoundedUp(text: string): Date | undefined {
  const instant = parseInstant(text)
  const hasFractionOfMs = /\.\d{3}\d*[1-9]/.test(text)
  if (instant === undefined || !hasFractionOfMs) return instant
  return new Date(Math.min(instant.getTime() + 1, LAST_INSTANT))
}

/**
 * Parses an IANA name such as `Europe/Amsterdam` or `UTC`, and returns it in IANA's capitalization, because Java and
 * Python do not know `europe/amsterdam`. An alias such as `US/Pacific` is returned as it was written. Returns undefined
 * for other text, including offsets such as `+01:00`.
 */
export function parseTimezone(name: string): string | undefined {
  if (!/^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+)*$/.test(name)) return undefined
  try {
    const canonical = dayFormat(name).resolvedOptions().timeZone
    return canonical.toLowerCase() === name.toLowerCase() ? canonical : name
  } catch {
    return undefined
  }
}

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

/**
 * The first instant of the date in the time zone: 00:00 or, if the clocks are set forward at midnight, a later time.
 */
export function startOfDay(date: string, timezone: string): Date {
  return instantOf(date, 0, timezone)
}

/**
 * The first instant at which clocks in the time zone show the time of day `hour` on the date. `hour` may have a
 * fraction: 9.5 is 09:30. If the clocks are set forward and skip this time, the result is later by the length of the
 * skip: 02:00 becomes 03:00.
 */
export function instantOf(date: string, hour: number, timezone: string): Date {
  const localAsUtc = Date.parse(`${date}T00:00:00Z`) + Math.round(hour * HOUR_MS)
  // The offset from UTC may change on this day, so there are two candidates. Clocks are less than a day ahead of UTC or
  // behind it, so `localAsUtc - DAY_MS` is before the result, and `localAsUtc + DAY_MS` after it.
  const withOffsetBefore = localAsUtc - offsetAt(localAsUtc - DAY_MS, timezone)
  const withOffsetAfter = localAsUtc - offsetAt(localAsUtc + DAY_MS, timezone)
  // If the clocks are set back, they may show the time at both candidates; if they are set forward, at neither. In both
  // cases `withOffsetBefore` is the result.
  const isShownAt = (time: number) => time + offsetAt(time, timezone) === localAsUtc
  const isShownOnlyAfter = !isShownAt(withOffsetBefore) && isShownAt(withOffsetAfter)
  return new Date(isShownOnlyAfter ? withOffsetAfter : withOffsetBefore)
}

/** How far local time is ahead of UTC, in milliseconds. */
function offsetAt(time: number, timezone: string): number {
  // `Date.parse` accepts only years with four digits.
  const parsable = Math.min(Math.max(time, FIRST_PARSABLE), LAST_PARSABLE)
  const localTime = clockFormat(timezone).format(parsable)
  return Date.parse(`${localTime.replace(' ', 'T')}Z`) - Math.floor(parsable / 1000) * 1000
}

const DAY = { year: 'numeric', month: '2-digit', day: '2-digit' } as const
const TIME = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const

// In Swedish, dates and times are written as `2026-11-21 09:14:02`.
const LOCALE = 'sv-SE-u-ca-iso8601-nu-latn'
const dayFormat = dateFormats(LOCALE, DAY)
const clockFormat = dateFormats(LOCALE, { ...DAY, ...TIME })
