/**
 * Parses dates in the format that the user chooses. The format is never guessed, because 3/4/2013 is in March or
 * in April, depending on the country.
 */
import { isCalendarDate } from '../calendar/calendar.ts'
import { LedgerError } from './ledger-error.ts'

/** Returns `YYYY-MM-DD`; undefined if the text has another format, or if there is no such day. */
export type DateReader = (text: string) => string | undefined

const PARTS: Readonly<Record<string, string>> = {
  YYYY: '(?<year>\\d{4})',
  MM: '(?<month>\\d{2})',
  M: '(?<month>\\d{1,2})',
  DD: '(?<day>\\d{2})',
  D: '(?<day>\\d{1,2})',
}

/**
 * `format` contains the year (YYYY), the month (M or MM) and the day (D or DD), each once and in any order. It may
 * contain the separators `-`, `/`, `.` and spaces. M and D match one digit or two, so separators must stand
 * between them and other parts. Throws a `LedgerError` for any other format.
 */
export function dateReader(format: string): DateReader {
  const tokens = format.match(/YYYY|MM|M|DD|D|[-/. ]/g) ?? []
  const initials = tokens.map((token) => token.charAt(0)).filter((initial) => /[YMD]/.test(initial))
  if (tokens.join('') !== format || initials.sort().join('') !== 'DMY' || lacksSeparator(tokens)) {
    throw new LedgerError(
      `A date format consists of YYYY, MM or M, and DD or D, e.g. M/D/YYYY, D.M.YYYY or YYYY-MM-DD. It cannot be ${format}.`,
      { about: 'date_format' },
    )
  }
  const pattern = new RegExp(`^${tokens.map((token) => PARTS[token] ?? `[${token}]`).join('')}$`)
  return (text) => {
    const { year, month, day } = pattern.exec(text)?.groups ?? {}
    if (year === undefined || month === undefined || day === undefined) return undefined
    const date = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`
    return isCalendarDate(date) ? date : undefined
  }
}

/** Whether M or D is next to another part without a separator, which would be ambiguous. */
function lacksSeparator(tokens: readonly string[]): boolean {
  return tokens.some((token, at) => {
    const adjacent = `${tokens[at - 1] ?? ' '}${tokens[at + 1] ?? ' '}`
    return /^[MD]$/.test(token) && /[YMD]/.test(adjacent)
  })
}
