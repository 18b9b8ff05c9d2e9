/**
 * What a form or a JSON body says, read alike: texts, lists of texts, whole numbers, nothing else. A
 * member of an object in JSON is named by its path, e.g. `ladder/firm`, as the fault of it points there.
 */
import { type FieldError, Problem } from '../../../shared/contract/problem.ts'
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

function readJson(body: JsonObject, expected: Expected) {
  const values = new Map<string, readonly string[]>()
  const errors: FieldError[] = []
  for (const { path, pointer, value } of membersOf(body, expected)) {
    const read = readMember(path, value, expected)
    if (Array.isArray(read)) values.set(path, read)
    else if (read !== undefined) errors.push({ pointer, ...read })
  }
  if (errors.length > 0) {
    const detail = errors.map((error) => error.detail).join(' ')
    throw new Problem('validation_failed', detail, { members: { errors } })
  }
  return values
}

interface Member {
  readonly path: string
  readonly pointer: string
  readonly value: unknown
}

/** Of objects in which members are expected, those members in their place. */
function membersOf(body: JsonObject, { numbers = [] }: Expected): Member[] {
  return Object.entries(body).flatMap(([name, value]): Member[] => {
    const pointer = `/${escapePointer(name)}`
    const isNested = numbers.some((path) => path.startsWith(`${name}/`))
    if (!isNested || !isObject(value)) return [{ path: name, pointer, value }]
    return Object.entries(value).map(([inner, member]) => ({
      path: `${name}/${inner}`,
      pointer: `${pointer}/${escapePointer(inner)}`,
      value: member,
    }))
  })
}

/** What it says, or what is wrong with it; undefined where it is as if it had been left out. */
function readMember(
  path: string,
  value: unknown,
  { texts = [], lists = [], numbers = [] }: Expected,
): string[] | Pick<FieldError, 'code' | 'detail'> | undefined {
  if (numbers.includes(path)) {
    // Null is a number that there is none of.
    if (value === null) return ['']
    if (Number.isSafeInteger(value)) return [String(value)]
    return { code: 'invalid_type', detail: `${path} must be a whole number.` }
  }
  const isText = texts.includes(path)
  if (!isText && !lists.includes(path)) {
    return { code: 'unknown_field', detail: `${path} is not a field of this.` }
  }
  if (value === null) return undefined
  if (isText && typeof value === 'string') return [value]
  if (!isText && isTexts(value)) return [...value]
  const must = isText ? 'a string' : 'an array of strings'
  return { code: 'invalid_type', detail: `${path} must be ${must}.` }
}

function escapePointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
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

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
