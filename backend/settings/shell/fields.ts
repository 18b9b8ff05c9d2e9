/**
 * What a form or a JSON body says, read alike: texts, lists of texts, whole numbers, nothing else. A
 * member of an object in JSON is named by its path, e.g. `ladder/firm`, as the fault of it points there.
 */
import joi, { type AnySchema, type ObjectSchema } from 'joi'
import { Problem } from '../../../shared/contract/problem.ts'
import { validateBody } from '../../validation/body.ts'
import { type JsonObject, parseJsonObject } from '../../validation/json.ts'

/** Charset absent or the only one there is. */
const JSON_TYPE = /^application\/json(?:\s*;\s*charset="?utf-8"?)?$/i
const FORM_TYPE = /^application\/x-www-form-urlencoded(?:\s*;\s*charset="?utf-8"?)?$/i

/** More than any page has. */
const FORM_FIELDS_MAX = 100

const utf8 = new TextDecoder('utf-8', { fatal: true })

export interface Expected {
  readonly texts?: readonly string[]
  readonly lists?: readonly string[]
  readonly numbers?: readonly string[]
}

export class Fields {
  readonly isJson: boolean
  readonly #values: ReadonlyMap<string, readonly string[]>

  constructor(isJson: boolean, values: ReadonlyMap<string, readonly string[]>) {
    this.isJson = isJson
    this.#values = values
  }

  has(name: string): boolean {
    return this.#values.has(name)
  }

  /** '' where it was not sent. */
  text(name: string): string {
    return this.#values.get(name)?.[0] ?? ''
  }

  /** Null where it is empty or was not sent, NaN where a form says what is no number. */
  number(name: string): number | null {
    const text = this.text(name).trim()
    return text === '' ? null : /^-?\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  }

  list(name: string): readonly string[] {
    return this.#values.get(name) ?? []
  }
}

export const NO_FIELDS: Fields = new Fields(false, new Map())

/** Throws `Problem` 400, 415, 422. A body of no bytes is one without fields, whatever its type. */
export function parseFields(body: Uint8Array, type: string, expected: Expected): Fields {
  if (JSON_TYPE.test(type)) {
    if (body.length === 0) return new Fields(true, new Map())
    return new Fields(true, readJson(parseJsonObject(body), expected))
  }
  if (FORM_TYPE.test(type)) return new Fields(false, readForm(body, expected))
  if (body.length === 0) return NO_FIELDS
  throw unsupportedType()
}

export function unsupportedType(): Problem {
  const detail = 'Send application/json, or a form as application/x-www-form-urlencoded.'
  return new Problem('unsupported_media_type', detail, { headers: { accept: 'application/json' } })
}

/** Throws the 422 that names every fault. */
function readJson(body: JsonObject, expected: Expected) {
  const values = new Map<string, readonly string[]>()
  for (const [path, value] of membersOf(validateBody(schemaOf(expected), body))) {
    if (Array.isArray(value)) values.set(path, value.map(String))
    else values.set(path, [value === null ? '' : String(value)])
  }
  return values
}

const ANY_TEXT = joi.string().allow('')
const FIELD_SCHEMAS = {
  texts: ANY_TEXT.empty(null),
  lists: joi.array().items(ANY_TEXT).empty(null),
  // Null is a number that there is none of.
  numbers: joi.number().integer().allow(null),
} satisfies Record<keyof Expected, AnySchema>

function schemaOf({ texts = [], lists = [], numbers = [] }: Expected): ObjectSchema<JsonObject> {
  const schemas = new Map<string, AnySchema>([
    ...texts.map((path) => [path, FIELD_SCHEMAS.texts] as const),
    ...lists.map((path) => [path, FIELD_SCHEMAS.lists] as const),
    ...numbers.map((path) => [path, FIELD_SCHEMAS.numbers] as const),
  ])
  const groups = Map.groupBy(schemas, ([path]) => path.split('/')[0] ?? '')
  const members = [...groups].map(([name, inside]) => {
    const inner = inside.flatMap(([path, schema]) => {
      const [, rest] = path.split('/')
      return rest === undefined ? [] : [[rest, schema] as const]
    })
    return [name, inner.length > 0 ? joi.object(Object.fromEntries(inner)) : schemas.get(name)]
  })
  return joi.object(Object.fromEntries(members))
}

/** Members of an object within by their path. */
function membersOf(body: JsonObject): [path: string, value: unknown][] {
  return Object.entries(body).flatMap(([name, value]): [string, unknown][] => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[name, value]]
    return Object.entries(value).map(([inner, member]) => [`${name}/${inner}`, member])
  })
}

function readForm(body: Uint8Array, { texts = [], lists = [], numbers = [] }: Expected) {
  const text = decode(body)
  const values = new Map<string, string[]>()
  const pairs = [...new URLSearchParams(text)]
  if (pairs.length > FORM_FIELDS_MAX) throw badForm('The form has too many fields.')
  for (const [name, value] of pairs) {
    if (value.includes('\u{fffd}')) throw badForm(`${name} is not UTF-8.`)
    const known = values.get(name)
    if (lists.includes(name)) values.set(name, [...(known ?? []), value])
    else if (name !== 'csrf_token' && ![...texts, ...numbers].includes(name))
      throw badForm('Unknown form field.')
    else if (known !== undefined) throw badForm(`${name} was sent twice.`)
    else values.set(name, [value])
  }
  return values
}

function decode(body: Uint8Array): string {
  try {
    const text = utf8.decode(body)
    if (!/%(?![0-9a-f]{2})/i.test(text)) return text
  } catch {
    // As with a percent sign that stands for nothing.
  }
  throw badForm('The form is not UTF-8, percent-encoded.')
}

function badForm(detail: string): Problem {
  return new Problem('bad_request', detail)
}
