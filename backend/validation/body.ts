/**
 * Validates bodies with joi. All errors are reported together, each as an element of `errors` with a JSON pointer.
 */
import assert from 'node:assert'
import joi, { type AnySchema, type ObjectSchema, type Schema, type ValidationErrorItem } from 'joi'
import { type FieldError, fieldErrorsProblem } from './field-errors.ts'
import { text } from './fields.ts'
import { type JsonObject, jsonPointer } from './json.ts'
import { check, Rejection, rejectionOf, VALIDATION } from './rejections.ts'

/** Null and an omitted field are both rejected with the code `required`. */
export function required(schema: AnySchema): Schema {
  return optional(schema).required()
}

/**
 * Like `required`, but null is rejected with the code `invalid_type`: a client that sends a null amount has made a
 * mistake.
 */
export function requiredNotNull(schema: AnySchema): Schema {
  return schema.required()
}

/** A null field is treated like an omitted one. */
export function optional(schema: AnySchema): AnySchema {
  return schema.empty(null)
}

/** Required unless `peer` is sent. Without `peer`, null is rejected as by `requiredNotNull`. */
export function requiredWithout(peer: string, schema: AnySchema): Schema {
  return joi.when(peer, {
    is: joi.exist().invalid(null),
    // biome-ignore lint/suspicious/noThenProperty: joi gives the option this name.
    then: optional(schema),
    otherwise: requiredNotNull(schema),
  })
}

export function object<T>(fields: { readonly [K in keyof T]-?: Schema }): ObjectSchema<T> {
  return joi.object<T>(fields)
}

/** The highest `max` that a `list` may have. */
const ITEMS_MAX = 200

export function list(item: Schema, { max }: { max: number }): Schema {
  assert(max <= ITEMS_MAX, 'a list shortened by shortenHugeLists would be valid')
  return joi.array().items(item).min(1).max(max)
}

const metadataKey = text({ max: 40 })
const metadataValue = text({ max: 500, min: 0, multiline: true })

const MEMBERS_MAX = 20

/** Up to 20 members with names and values that the client chooses. */
export const metadata: Schema = joi
  .object()
  .unknown()
  .max(MEMBERS_MAX)
  .empty(null)
  .custom((value: JsonObject, helpers) => {
    const { members, rejections } = checkMetadata(value)
    return rejections.length > 0 ? helpers.error('members', { rejections }) : members
  })

type MemberRejection = readonly [name: string, rejection: Rejection]

function checkMetadata(metadata: JsonObject) {
  const members = new Map<string, string>()
  const rejections: MemberRejection[] = []
  // Members beyond the maximum are not checked, because `max` rejects an object that has them.
  for (const [name, sent] of Object.entries(metadata).slice(0, MEMBERS_MAX)) {
    const key = check(metadataKey, name)
    const value = check(metadataValue, sent)
    if (key instanceof Rejection) rejections.push([name, key])
    else if (members.has(key)) rejections.push([name, SAME_NAME])
    if (value instanceof Rejection) rejections.push([name, value])
    else if (!(key instanceof Rejection)) members.set(key, value)
  }
  return { members: Object.fromEntries(members), rejections }
}

/** Two names can become equal in NFC, and then one of the values would be lost. */
const SAME_NAME = new Rejection('conflicting_field', 'has the same name as another member')

/**
 * Shortens members of the body that are arrays too long for any `list`: joi would validate all items, which takes a
 * quarter of a second for 10,000 items. Every `list` still rejects a shortened array. Every member that can be an array
 * must therefore be declared with `list`: another schema might accept the shortened array.
 */
export function shortenHugeLists(body: JsonObject): JsonObject {
  const isTooLong = (value: unknown) => Array.isArray(value) && value.length > ITEMS_MAX
  if (!Object.values(body).some(isTooLong)) return body
  const members = Object.entries(body).map(([name, value]) =>
    Array.isArray(value) ? [name, value.slice(0, ITEMS_MAX + 1)] : [name, value],
  )
  return Object.fromEntries(members)
}

/** `today` is the current date in the account's time zone. Throws the 422 that lists the errors. */
export function validateBody<T>(schema: ObjectSchema<T>, body: JsonObject, today?: string): T {
  const { value, error } = schema.validate(body, { ...VALIDATION, context: { today } })
  if (error === undefined) return value
  throw fieldErrorsProblem(error.details.flatMap(fieldErrorsOf))
}

function fieldErrorsOf(item: ValidationErrorItem): FieldError[] {
  const { type, path, context = {} } = item
  switch (type) {
    case 'members': {
      const rejections: readonly MemberRejection[] = context['rejections']
      return rejections.map(([name, rejection]) => fieldError([...path, name], rejection))
    }
    // This error and the next one concern an object, but are reported at its members.
    case 'object.missing': {
      const peers: readonly string[] = context['peers']
      return peers.slice(0, 1).map((name) => fieldError([...path, name], rejectionOf(item)))
    }
    case 'object.xor': {
      const present: readonly string[] = context['present']
      return present.slice(1).map((name) => fieldError([...path, name], rejectionOf(item)))
    }
    default:
      return [fieldError(path, rejectionOf(item))]
  }
}

function fieldError(path: readonly (string | number)[], { code, detail }: Rejection): FieldError {
  return { pointer: jsonPointer(path), code, detail: `${path.at(-1) ?? 'the body'} ${detail}` }
}
