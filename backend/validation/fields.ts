/**
 * Checks of single values, the same for body fields and query parameters. A check returns the value
 * in the form we keep (NFC, upper-case currency, UTC), or a `Rejection`; it converts no type.
 */
import { isCalendarDate, isTimezone, parseInstant } from '../calendar/calendar.ts'
import { AMOUNT_MAX, parseCurrency } from '../money/money.ts'

/** Codes of contract 1.9, and `unsupported_currency`, a problem of its own. */
export type RejectionCode =
  | 'required'
  | 'invalid_type'
  | 'too_long'
  | 'too_short'
  | 'out_of_range'
  | 'invalid_format'
  | 'invalid_enum'
  | 'not_in_future'
  | 'unsupported_currency'

/** `detail` completes "field …". */
export class Rejection {
  readonly code: RejectionCode
  readonly detail: string

  constructor(code: RejectionCode, detail: string) {
    this.code = code
    this.detail = detail
  }
}

export type Check<T> = (value: unknown) => T | Rejection

interface TextOptions {
  /** In code points, after normalisation. */
  readonly max: number
  readonly min?: number
  /** Spaces at both ends are dropped. */
  readonly trim?: boolean
  /** Line breaks and tabs may occur. */
  readonly lines?: boolean
}

/** Text without control characters, in NFC. */
export function text({ max, min = 1, trim = false, lines = false }: TextOptions): Check<string> {
  return (value) => {
    if (typeof value !== 'string') return new Rejection('invalid_type', 'must be a string')
    if (!value.isWellFormed() || /\p{Cc}/u.test(lines ? value.replace(/[\t\n\r]/g, '') : value)) {
      return new Rejection('invalid_format', 'must be text without control characters')
    }
    const kept = (trim ? value.trim() : value).normalize('NFC')
    // Bodies are small, so counting code points by spreading costs nothing worth avoiding.
    const length = [...kept].length
    if (length < min) {
      const wanted = min === 1 ? 'not be empty' : `have at least ${min} characters`
      return new Rejection('too_short', `must ${wanted}`)
    }
    if (length > max) return new Rejection('too_long', `must have at most ${max} characters`)
    return kept
  }
}

/** Text of a certain form. `form` completes "must be …". */
export function matching(pattern: RegExp, form: string, options: TextOptions): Check<string> {
  return parsed((value) => (pattern.test(value) ? value : undefined), form, options)
}

/** Text that `parse` makes something of. `form` completes "must be …". */
export function parsed<T>(
  parse: (value: string) => T | undefined,
  form: string,
  options: TextOptions = { max: 64 },
): Check<T> {
  const check = text(options)
  return (value) => {
    const kept = check(value)
    if (kept instanceof Rejection) return kept
    return parse(kept) ?? new Rejection('invalid_format', `must be ${form}`)
  }
}

export const externalId = matching(/^\S+$/u, 'visible characters, without spaces', { max: 128 })
/** An id of ours as a reference. Its form is not checked: a malformed one does not exist. */
export const reference = text({ max: 64 })
export const calendarDate = parsed(
  (value) => (isCalendarDate(value) ? value : undefined),
  'a date that exists, as YYYY-MM-DD',
)
/** As rows have it: ISO 8601 UTC with milliseconds. */
export const instant = parsed(
  (value) => parseInstant(value)?.toISOString(),
  'a time of RFC 3339 with an offset, e.g. 2026-11-21T09:14:02Z (write a + as %2B)',
)
export const timezone = parsed(
  (value) => (isTimezone(value) ? value : undefined),
  'an IANA time zone, e.g. Europe/Amsterdam',
)

/** A JSON number without a fraction: 100, 100.0 and 1e2 are the same. */
export function integer({ min, max }: { min: number; max: number }): Check<number> {
  return (value) => {
    if (typeof value !== 'number' || (Number.isFinite(value) && !Number.isInteger(value))) {
      return new Rejection('invalid_type', 'must be an integer')
    }
    if (value < min || value > max) {
      return new Rejection('out_of_range', `must be from ${min} to ${max}`)
    }
    // Minus zero is zero.
    return value + 0
  }
}

function minorUnits(min: number): Check<number> {
  const check = integer({ min, max: AMOUNT_MAX })
  return (value) => {
    const result = check(value)
    return result instanceof Rejection && result.code === 'invalid_type'
      ? new Rejection('invalid_type', 'must be an integer in minor units, e.g. 12345')
      : result
  }
}

export const amount = minorUnits(1)
/** Negative on a discount. */
export const signedAmount = minorUnits(-AMOUNT_MAX)

export const currency: Check<string> = (value) => {
  if (typeof value !== 'string') return new Rejection('invalid_type', 'must be a string')
  const code = parseCurrency(value)
  if (code !== undefined) return code
  return /^[A-Za-z]{3}$/.test(value)
    ? new Rejection('unsupported_currency', `must be a currency with a minor unit, not ${value}`)
    : new Rejection('unsupported_currency', 'must be a currency code of ISO 4217, e.g. EUR')
}

/** For lists: any code may be asked for; one that we do not support is found nowhere. */
export const currencyFilter = parsed(
  (value) => (/^[A-Za-z]{3}$/.test(value) ? value.toUpperCase() : undefined),
  'a currency code of three letters',
)

export const boolean: Check<boolean> = (value) =>
  typeof value === 'boolean' ? value : new Rejection('invalid_type', 'must be true or false')

/** Values of a closed set, separated by commas, each once. */
export function severalOf<const T extends string>(values: readonly T[]): Check<readonly T[]> {
  const form = `one or several of ${values.join(', ')}, separated by commas`
  return parsed(
    (value) => {
      const parts = value.split(',')
      const found = values.filter((candidate) => parts.includes(candidate))
      return found.length === parts.length ? found : undefined
    },
    form,
    { max: 200 },
  )
}

export function oneOf<const T extends string>(values: readonly T[]): Check<T> {
  return (value) => {
    if (typeof value !== 'string') return new Rejection('invalid_type', 'must be a string')
    const found = values.find((candidate) => candidate === value)
    return found ?? new Rejection('invalid_enum', `must be one of ${values.join(', ')}`)
  }
}
