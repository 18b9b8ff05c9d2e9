/** What a form or a JSON body says, read alike: texts and lists of texts, nothing else. */
import { type FieldError, Problem } from '../../shared/problem.ts'
import { type JsonObject, parseJsonObject } from '../api/json.ts'

/** Charset absent or the only one there is. */
const JSON_TYPE = /^application\/json(?:\s*;\s*charset="?utf-8"?)?$/i
const FORM_TYPE = /^application\/x-www-form-urlencoded(?:\s*;\s*charset="?utf-8"?)?$/i

/** More than any page has. */
const FORM_FIELDS_MAX = 100

const utf8 = new TextDecoder('utf-8', { fatal: true })

export interface Expected {
  readonly texts?: readonly string[]
  readonly lists?: readonly string[]
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

function readJson(body: JsonObject, { texts = [], lists = [] }: Expected) {
  const values = new Map<string, readonly string[]>()
  const errors: FieldError[] = []
  for (const [name, value] of Object.entries(body)) {
    const pointer = `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    if (!texts.includes(name) && !lists.includes(name)) {
      errors.push({ pointer, code: 'unknown_field', detail: `${name} is not a field of this.` })
    } else if (value === null) {
      // As if it had been left out.
    } else if (texts.includes(name) && typeof value === 'string') {
      values.set(name, [value])
    } else if (lists.includes(name) && isTexts(value)) {
      values.set(name, value)
    } else {
      const must = texts.includes(name) ? 'a string' : 'an array of strings'
      errors.push({ pointer, code: 'invalid_type', detail: `${name} must be ${must}.` })
    }
  }
  if (errors.length > 0) {
    const detail = errors.map((error) => error.detail).join(' ')
    throw new Problem('validation_failed', detail, { members: { errors } })
  }
  return values
}

function readForm(body: Uint8Array, { texts = [], lists = [] }: Expected) {
  const text = decode(body)
  const values = new Map<string, string[]>()
  const pairs = [...new URLSearchParams(text)]
  if (pairs.length > FORM_FIELDS_MAX) throw badForm('The form has too many fields.')
  for (const [name, value] of pairs) {
    if (value.includes('\u{fffd}')) throw badForm(`${name} is not UTF-8.`)
    const known = values.get(name)
    if (lists.includes(name)) values.set(name, [...(known ?? []), value])
    else if (name !== 'csrf_token' && !texts.includes(name)) throw badForm('Unknown form field.')
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

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
