/**
 * Formats for dates, by time zone. They are cached, because creating a format takes 50 µs, and using a format 1 µs.
 * A format also takes tens of kilobytes outside of V8's heap, which only a full garbage collection releases.
 */
import { LRUCache } from 'lru-cache'
import { Problem } from '../../shared/contract/problem.ts'

/**
 * A time zone is checked before it is stored, but may be unknown to another version of Node.js, e.g. after a downgrade.
 */
export class UnknownTimezone extends Problem {
  constructor(timezone: string, cause?: unknown) {
    super(
      'internal_error',
      `The time zone ${timezone} of the account is unknown to this version of Node.js. An Admin of the account can choose another time zone at /settings/account, or the operator of the service can upgrade Node.js.`,
      { cause },
    )
  }
}

/** More than the time zones in common use (Node lists 418). */
const TIMEZONES_MAX = 500

/** The returned function throws `UnknownTimezone` if Node does not know the time zone. */
export function dateFormats(
  locale: string,
  options: Omit<Intl.DateTimeFormatOptions, 'timeZone'>,
): (timezone: string) => Intl.DateTimeFormat {
  const formats = new LRUCache<string, Intl.DateTimeFormat>({ max: TIMEZONES_MAX })
  return (timezone) => {
    const cached = formats.get(timezone)
    if (cached !== undefined) return cached
    const format = createFormat(locale, options, timezone)
    formats.set(timezone, format)
    return format
  }
}

function createFormat(
  locale: string,
  options: Omit<Intl.DateTimeFormatOptions, 'timeZone'>,
  timezone: string,
): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat(locale, { ...options, timeZone: timezone })
  } catch (error) {
    throw new UnknownTimezone(timezone, error)
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
