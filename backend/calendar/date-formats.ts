/**
 * Formats for dates, by time zone. They are cached: creating a format takes 50 µs and tens of kilobytes outside of
 * V8's heap, which are released only with the next full garbage collection; using it takes 1 µs.
 */
import { LRUCache } from 'lru-cache'

/** More than the time zones in common use (Node lists 418). */
const TIMEZONES_MAX = 500

export function dateFormats(
  locale: string,
  options: Omit<Intl.DateTimeFormatOptions, 'timeZone'>,
): (timezone: string) => Intl.DateTimeFormat {
  const formats = new LRUCache<string, Intl.DateTimeFormat>({ max: TIMEZONES_MAX })
  return (timezone) => {
    const cached = formats.get(timezone)
    if (cached !== undefined) return cached
    const format = new Intl.DateTimeFormat(locale, { ...options, timeZone: timezone })
    formats.set(timezone, format)
    return format
  }
}

/** Returns a function that formats calendar dates, which belong to no time zone. */
export function calendarDateFormat(
  locale: string,
  options: Omit<Intl.DateTimeFormatOptions, 'timeZone'>,
): (date: string) => string {
  const format = new Intl.DateTimeFormat(locale, { ...options, timeZone: 'UTC' })
  return (date) => format.format(Date.parse(`${date}T00:00:00Z`))
}
