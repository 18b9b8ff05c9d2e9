/**
 * Bodies by joi: which fields an object has and how they nest. Single values are checked by
 * fields.ts; here a `Check` becomes a schema, and joi's findings become faults with JSON pointers.
 */
import joi, { type ObjectSchema, type Schema, type ValidationErrorItem } from 'joi'
import { type Fault, faultsProblem } from '../validation/faults.ts'
import { type Check, Rejection, text } from '../validation/fields.ts'
import { type JsonObject, jsonPointer } from '../validation/json.ts'

/** Null counts as omitted, and an omitted required field is `required`. */
export function required<T>(check: Check<T>): Schema {
  return optional(check).required()
}

/** Null is a value of the wrong type: the rule for amounts, where omitting must be meant. */
export function requiredNotNull<T>(check: Check<T>): Schema {
  return checked(check).required()
}

export function optional<T>(check: Check<T>): Schema {
  return checked(check).empty(null)
}

/** For a check that needs the account's calendar date. */
export function optionalByToday<T>(
  check: (value: unknown, today: string) => T | Rejection,
): Schema {
  return checked(check).empty(null)
}

/** Required unless `peer` is sent; null is then as for `requiredNotNull`. */
export function requiredWithout<T>(peer: string, check: Check<T>): Schema {
  return joi.when(peer, {
    is: joi.exist().invalid(null),
    // biome-ignore lint/suspicious/noThenProperty: the name that joi gives it.
    then: optional(check),
    otherwise: requiredNotNull(check),
  })
}

export function object<T>(fields: { readonly [K in keyof T]-?: Schema }): ObjectSchema<T> {
  return joi.object<T>(fields)
}

export function list(item: Schema, { max }: { max: number }): Schema {
  return joi.array().items(item).min(1).max(max)
}

/** Up to 20 values of the client's own. */
export const metadata: Schema = joi
  .object()
  .unknown()
  .max(20)
  .empty(null)
  .custom((value: JsonObject, helpers) => {
    const rejections = Object.entries(value).flatMap(([key, member]): Rejected[] => {
      const found = [metadataKey(key), metadataValue(member)]
      return found.flatMap((result) => (result instanceof Rejection ? [[[key], result]] : []))
    })
    return rejections.length > 0 ? helpers.error('rejected', { rejections }) : value
  })

const metadataKey = text({ max: 40 })
const metadataValue = text({ max: 500, min: 0, lines: true })

/** The body as its schema describes it; `today` is the account's. Throws the 422 that names every fault. */
export function validateBody<T>(schema: ObjectSchema<T>, body: JsonObject, today: string): T {
  const { value, error } = schema.validate(body, {
    convert: false,
    abortEarly: false,
    allowUnknown: false,
    errors: { render: false },
    context: { today },
  })
  if (error === undefined) return value
  throw faultsProblem(error.details.flatMap(faultsOf))
}

/** Where within the value, and why. */
type Rejected = readonly [path: readonly (string | number)[], rejection: Rejection]

function checked<T>(check: (value: unknown, today: string) => T | Rejection): Schema {
  return joi.any().custom((value: unknown, helpers) => {
    const result = check(value, helpers.prefs.context?.['today'])
    if (!(result instanceof Rejection)) return result
    return helpers.error('rejected', { rejections: [[[], result]] satisfies Rejected[] })
  })
}

type Context = Readonly<Record<string, unknown>>

function faultsOf({ type, path, context = {} }: ValidationErrorItem): Fault[] {
  switch (type) {
    case 'rejected': {
      const rejections: readonly Rejected[] = context['rejections']
      return rejections.map(([within, { code, detail }]) =>
        fault([...path, ...within], code, detail),
      )
    }
    case 'object.missing': {
      const peers: readonly string[] = context['peers']
      const [name = '', ...others] = peers
      const detail = `is required, or ${others.join(' or ')} in its place`
      return [fault([...path, name], 'required', detail)]
    }
    case 'object.xor': {
      const present: readonly string[] = context['present']
      const detail = `cannot be sent together with ${present[0]}`
      return present.slice(1).map((name) => fault([...path, name], 'conflicting_field', detail))
    }
    default: {
      const [code, detail] = FINDINGS[type]?.(context) ?? ['invalid_format', 'is wrong']
      return [fault(path, code, detail)]
    }
  }
}

/** What joi itself finds, by its error type. */
const FINDINGS: Readonly<Record<string, (context: Context) => [code: string, detail: string]>> = {
  'any.required': () => ['required', 'is required'],
  'object.base': () => ['invalid_type', 'must be an object'],
  'array.base': () => ['invalid_type', 'must be an array'],
  'object.unknown': () => ['unknown_field', 'is not a field of this object'],
  'object.max': ({ limit }) => ['too_long', `can have at most ${limit} members`],
  'array.min': ({ limit }) => ['too_short', `must have at least ${limit} items`],
  'array.max': ({ limit }) => ['too_long', `can have at most ${limit} items`],
}

/** `detail` completes "field …". */
function fault(path: readonly (string | number)[], code: string, detail: string): Fault {
  return { pointer: jsonPointer(path), code, detail: `${path.at(-1) ?? 'the body'} ${detail}` }
}
