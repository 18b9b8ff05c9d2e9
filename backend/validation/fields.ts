/**
 * Defines joi schemas for single values. A valid value is returned in the form in which it is stored (NFC, upper-case
 * currency, UTC). A value of the wrong JSON type is rejected, not converted.
 */
import joi, { type AnySchema } from 'joi'
import { isCalendarDate, parseInstantRoundedUp, parseTimezone } from '../calendar/calendar.ts'
import { AMOUNT_MAX, parseCurrency } from '../money/money.ts'
import { withDetails } from './rejections.ts'
import { hasTooManyMarks, trimText } from './unicode.ts'

const firstErrorOnly = { abortEarly: true }

/** UTF-8 cannot encode lone surrogates. */
const WELL_FORMED = /^\P{Cs}*$/u
const LINE = /^\P{Cc}*$/u
/** Like `LINE`, but also allows line breaks and tabs. */
const LINES = /^[\t\n\r\P{Cc}]*$/v

interface TextOptions {
  /** The maximum length in code points, after normalization. */
  readonly max: number
  readonly min?: 0 | 1
  /** Whether spaces at both ends are removed. A text without visible characters is then empty. */
  readonly trim?: boolean
  /** Whether line breaks and tabs are allowed. Other control characters never are. */
  readonly multiline?: boolean
}

/** Text in NFC, without control characters and without lone surrogates. */
export function text({ max, min = 1, trim = false, multiline = false }: TextOptions) {
  return (min === 0 ? joi.string().allow('') : joi.string())
    .prefs(firstErrorOnly)
    .pattern(WELL_FORMED, 'text without lone surrogates')
    .pattern(multiline ? LINES : LINE, 'text without control characters')
    .custom((value: string, helpers) => {
      if (hasTooManyMarks(value)) {
        return helpers.error('string.form', {
          form: 'text with at most 30 combining marks in a row',
        })
      }
      const normalized = (trim ? trimText(value) : value).normalize('NFC')
      // joi counts UTF-16 code units. Bodies are small, so spreading the text is cheap enough.
      const length = [...normalized].length
      if (length < min) return helpers.error('string.empty')
      return length > max ? helpers.error('string.max', { limit: max }) : normalized
    })
}

/** `form` completes the message "must be …". */
export function matching(pattern: RegExp, form: string, options: TextOptions) {
  return text(options).pattern(pattern, form)
}

/** `form` completes the message "must be …". */
export function parsed<T>(
  parse: (value: string) => T | undefined,
  form: string,
  options: TextOptions = { max: 64 },
): AnySchema<T> {
  const schema: AnySchema = text(options).custom(
    (value: string, helpers) => parse(value) ?? helpers.error('string.form', { form }),
  )
  return schema
}

export const externalId = matching(/^\S+$/u, 'visible characters, without spaces', { max: 128 })
/** The id of an object. Its form is not checked, because an object with a malformed id does not exist. */
export const objectId = text({ max: 64 })
export const calendarDate = parsed(
  (value) => (isCalendarDate(value) ? value : undefined),
  'a date that exists, as YYYY-MM-DD',
)
/**
 * A date and time, returned as ISO 8601 in UTC with milliseconds, as the database stores it. Smaller fractions are
 * rounded up. A stored time has no smaller fractions, so it is before the result if and only if it is before the given
 * time.
 */
export const instant = parsed(
  (value) => parseInstantRoundedUp(value)?.toISOString(),
  'a time of RFC 3339 with an offset, e.g. 2026-11-21T09:14:02Z (write a + as %2B)',
)
export const httpsUrl = parsed(
  (value) =>
    value.startsWith('https://') && !/\s/.test(value) && URL.canParse(value) ? value : undefined,
  'an https address',
  { max: 2048 },
)
export const timezone = parsed(parseTimezone, 'an IANA time zone, e.g. Europe/Amsterdam')

interface Range {
  readonly min: number
  readonly max: number
}

/** A JSON number without a fraction: 100, 100.0 and 1e2 are the same. */
export function integer({ min, max }: Range, form = 'an integer') {
  const rangeDetail = `must be from ${min} to ${max}`
  const schema = joi
    .number()
    .prefs(firstErrorOnly)
    .integer()
    .min(min)
    .max(max)
    .custom(withoutMinusZero)
  return withDetails(schema, {
    'number.base': `must be ${form}`,
    'number.integer': `must be ${form}`,
    'number.min': rangeDetail,
    'number.max': rangeDetail,
    'number.unsafe': rangeDetail,
    'number.infinity': rangeDetail,
  })
}

/** Converts -0, which JSON can contain, to 0: adding 0 to -0 gives 0. */
function withoutMinusZero(value: number): number {
  return value + 0
}

function minorUnits(min: number) {
  return integer({ min, max: AMOUNT_MAX }, 'an integer in minor units, e.g. 12345')
}

export const amount = minorUnits(1)
/** An amount that may be negative, e.g. for a discount. */
export const signedAmount = minorUnits(-AMOUNT_MAX)

export const currency: AnySchema<string> = joi.any().custom((value: unknown, helpers) => {
  if (typeof value !== 'string') return helpers.error('string.base')
  const errorType = /^[A-Za-z]{3}$/.test(value) ? 'currency.unsupported' : 'currency.malformed'
  return parseCurrency(value) ?? helpers.error(errorType)
})

/** The currency filter of lists. Any code of three letters is accepted; an unsupported currency has no results. */
export const currencyFilter = parsed(
  (value) => (/^[A-Za-z]{3}$/.test(value) ? value.toUpperCase() : undefined),
  'a currency code of three letters',
)

export const boolean = joi.boolean()

/** One or several of the values, separated by commas, each at most once. */
export function severalOf<const T extends string>(values: readonly T[]): AnySchema<readonly T[]> {
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

export function oneOf<const T extends string>(values: readonly T[]): AnySchema<T> {
  return joi
    .string<T>()
    .prefs(firstErrorOnly)
    .valid(...values)
}
