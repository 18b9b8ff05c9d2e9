/** Translates the errors that joi reports into the codes and details of our errors. */
import type { AnySchema, ValidationErrorItem, ValidationOptions } from 'joi'

type Context = Readonly<Record<string, unknown>>

/**
 * The code and detail of each error, by joi's name for the error. Our own schemas also raise errors, such as
 * `currency.malformed`, whose names we have chosen.
 */
const JOI_ERRORS = {
  'any.required': ['required', () => 'is required'],
  'any.only': ['invalid_enum', ({ valids }) => `must be one of ${[valids].flat().join(', ')}`],
  'array.base': ['invalid_type', () => 'must be an array'],
  'array.max': ['too_long', ({ limit }) => `can have at most ${limit} items`],
  'array.min': ['too_short', ({ limit }) => `must have at least ${limit} items`],
  'boolean.base': ['invalid_type', () => 'must be true or false'],
  'currency.malformed': [
    'unsupported_currency',
    () => 'must be a currency code of ISO 4217, e.g. EUR',
  ],
  'currency.unsupported': [
    'unsupported_currency',
    ({ value }) => `must be a currency with a minor unit, not ${value}`,
  ],
  'date.future': ['not_in_future', () => 'must not be after tomorrow'],
  'date.min': ['out_of_range', ({ limit }) => `must not be before ${limit}`],
  'number.base': ['invalid_type', () => 'must be an integer'],
  'number.infinity': ['out_of_range', () => 'is too large a number'],
  'number.integer': ['invalid_type', () => 'must be an integer'],
  'number.max': ['out_of_range', ({ limit }) => `must be at most ${limit}`],
  'number.min': ['out_of_range', ({ limit }) => `must be at least ${limit}`],
  'number.positive': ['out_of_range', ({ limit }) => `must be more than 0 and at most ${limit}`],
  'number.unsafe': ['out_of_range', () => 'is too large a number'],
  'object.base': ['invalid_type', () => 'must be an object'],
  'object.max': ['too_long', ({ limit }) => `can have at most ${limit} members`],
  'object.missing': ['required', missingDetail],
  'object.unknown': ['unknown_field', () => 'is not a field of this object'],
  'object.xor': [
    'conflicting_field',
    ({ present }) => `cannot be sent together with ${[present].flat()[0]}`,
  ],
  'string.base': ['invalid_type', () => 'must be a string'],
  'string.empty': ['too_short', () => 'must not be empty'],
  'string.form': ['invalid_format', ({ form }) => `must be ${form}`],
  'string.max': ['too_long', ({ limit }) => `must have at most ${limit} characters`],
  'string.pattern.name': ['invalid_format', ({ name }) => `must be ${name}`],
} as const satisfies Record<string, readonly [code: string, detail: (context: Context) => string]>

export type RejectionCode = (typeof JOI_ERRORS)[keyof typeof JOI_ERRORS][0]

/** `peers` are fields of which one must be sent, but none was. The error is reported at the first of them. */
function missingDetail({ peers }: Context): string {
  const [, ...others] = [peers].flat()
  return `is required unless ${others.join(' or ')} is sent`
}

export const VALIDATION: ValidationOptions = {
  convert: false,
  abortEarly: false,
  allowUnknown: false,
  errors: { render: false },
}

/**
 * Returns the schema with specific details for some errors. joi's own option for messages is not used: joi would then
 * merge the messages on each validation, which would take ten times as long.
 */
export function withDetails<S extends AnySchema>(
  schema: S,
  details: Partial<Record<keyof typeof JOI_ERRORS, string>>,
): S {
  const detailByType = new Map(Object.entries(details))
  return schema.error((errors) => {
    // The member `code` contains joi's name for the error, which joi calls `type` elsewhere.
    for (const { code: type, local } of errors) {
      const detail = detailByType.get(type)
      if (detail !== undefined) local.detail = detail
    }
    return errors
  })
}

/** The rejection of a value. `detail` continues a sentence that begins with the name of the field. */
export class Rejection {
  readonly code: RejectionCode
  readonly detail: string

  constructor(code: RejectionCode, detail: string) {
    this.code = code
    this.detail = detail
  }
}

/** Domain code uses this type, so that it does not depend on joi. */
export type Check<T> = AnySchema<T>

/** Returns the value in the form in which it is stored, or its rejection. */
export function check<T>(schema: Check<T>, value: unknown): T | Rejection {
  const { value: valid, error } = schema.validate(value, VALIDATION)
  const [item] = error?.details ?? []
  return item === undefined ? valid : rejectionOf(item)
}

export function rejectionOf({ type, context = {} }: ValidationErrorItem): Rejection {
  // joi compares a value with the allowed texts before it checks the type of the value.
  if (type === 'any.only' && typeof context.value !== 'string') {
    return new Rejection('invalid_type', 'must be a string')
  }
  if (!isKnown(type)) throw new Error(`joi's error ${type} has no code in JOI_ERRORS`)
  const [code, detailOf] = JOI_ERRORS[type]
  return new Rejection(code, context['detail'] ?? detailOf(context))
}

function isKnown(type: string): type is keyof typeof JOI_ERRORS {
  return Object.hasOwn(JOI_ERRORS, type)
}
