/**
 * Reads the same fields from a form or a JSON body. A member of a nested JSON object has its path as its name, e.g.
 * `ladder/firm`, as in the pointers of errors.
 */
import joi, { type AnySchema, type ObjectSchema } from 'joi'
import { Problem } from '../../../shared/contract/problem.ts'
import { validateBody } from '../../validation/body.ts'
import { type JsonObject, parseJsonObject } from '../../validation/json.ts'

/** The charset is absent or utf-8. */
const JSON_TYPE = /^application\/json(?:\s*;\s*charset="?utf-8"?)?$/i
const FORM_TYPE = /^application\/x-www-form-urlencoded(?:\s*;\s*charset="?utf-8"?)?$/i

const MULTIPART_TYPE = /^multipart\/form-data\s*;/i

/** Limits the work for one request. No form and no JSON body of ours has as many fields. */
const FIELDS_MAX = 100

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * The hidden field with the values that a form for changing a record showed at first. Any other field that still has
 * its initial value counts as not sent. Without this, saving the form would revert what another person has changed
 * meanwhile.
 */
export const INITIAL_VALUES = 'shown'

/** The field in which a person enters their password again. */
export const PASSWORD = 'password'

/** The field with the id of the user for whom a form was rendered. */
export const FORM_USER_ID = 'form_user'

/**
 * The fields that a form does not copy when it sends the fields of an earlier form again: it has its own fields for the
 * CSRF token and the user, and the password is secret.
 */
const UNREPEATED_FIELDS: readonly string[] = ['csrf_token', FORM_USER_ID, PASSWORD]

/** A field as it was sent. */
export type FieldEntry = readonly [name: string, values: readonly string[]]

/** The parsed content of the field `INITIAL_VALUES`. */
type ParsedInitialValues = ReadonlyMap<string, readonly string[] | string>

/** The object that the field `INITIAL_VALUES` contains as JSON. */
export type InitialValues = Readonly<Record<string, string | readonly string[]>>

/**
 * The fields that a page expects. A request with any other field is rejected, but every form may contain `csrf_token`
 * and `FORM_USER_ID`.
 */
export interface ExpectedFields {
  readonly texts?: readonly string[]
  /** Texts that are never copied to another form, such as passwords and codes. */
  readonly secrets?: readonly string[]
  readonly lists?: readonly string[]
  readonly numbers?: readonly string[]
  /**
   * Lists of objects, with the members of each object. A form repeats a field, e.g. `allocations/amount`, for each
   * object.
   */
  readonly rows?: Readonly<Record<string, Pick<ExpectedFields, 'texts' | 'numbers'>>>
  /**
   * The name of a file field in a multipart form. `texts` must contain this name, e.g. `ledger`, and `ledger_name`,
   * because the file and its name are read like texts. Bytes that are not UTF-8 become U+FFFD.
   */
  readonly file?: string
  /** Whether the form may contain the field `INITIAL_VALUES`. A JSON body must not. */
  readonly ignoresUnchangedFields?: true
  /** Whether the form may contain the field `PASSWORD`. A JSON body must not. */
  readonly acceptsPassword?: boolean
  /** Like `file`, for a binary file. Its content is converted to base64, as in a JSON body. */
  readonly binaryFile?: string
}

/**
 * The fields of one request. A field that counts as not sent (see `INITIAL_VALUES`) is absent; only
 * `textEvenIfUnchanged` and `entries` return it.
 */
export class Fields {
  readonly isJson: boolean
  readonly #sent: ReadonlyMap<string, readonly string[]>
  readonly #values: ReadonlyMap<string, readonly string[]>
  readonly #initial: ParsedInitialValues
  readonly #unrepeated: readonly string[]

  constructor(
    isJson: boolean,
    sent: ReadonlyMap<string, readonly string[]>,
    secrets: readonly string[] = [],
  ) {
    const initialJson = isJson ? undefined : sent.get(INITIAL_VALUES)?.[0]
    this.isJson = isJson
    this.#sent = sent
    this.#unrepeated = [...UNREPEATED_FIELDS, ...secrets]
    this.#initial = initialJson === undefined ? new Map() : parseInitialValues(initialJson)
    this.#values = omitUnchanged(sent, this.#initial)
  }

  has(name: string): boolean {
    return this.#values.has(name)
  }

  /**
   * Whether a missing field keeps its stored value. In a form without the field `INITIAL_VALUES`, it does not: browsers
   * do not send a list in which nothing is selected, so a missing list is empty.
   */
  get missingMeansUnchanged(): boolean {
    return this.isJson || this.has(INITIAL_VALUES)
  }

  /** Returns '' if the field was not sent. */
  text(name: string): string {
    return this.#values.get(name)?.[0] ?? ''
  }

  /** Returns the text that the form showed at first; '' if the field `INITIAL_VALUES` does not contain it. */
  initialText(name: string): string {
    return withLineFeeds([this.#initial.get(name) ?? ''].flat()[0] ?? '')
  }

  /** Returns the list that the form showed at first; an empty list if `INITIAL_VALUES` does not contain it. */
  initialList(name: string): readonly string[] {
    return [this.#initial.get(name) ?? []].flat().map(withLineFeeds)
  }

  /** Returns the text, even if it counts as not sent because it is the initial text. */
  textEvenIfUnchanged(name: string): string {
    return this.#sent.get(name)?.[0] ?? this.initialText(name)
  }

  /**
   * Returns null if the field is empty or was not sent, and NaN if the value is not a whole number of up to nine
   * digits.
   */
  number(name: string): number | null {
    const text = this.text(name).trim()
    return text === '' ? null : /^-?\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  }

  list(name: string): readonly string[] {
    return this.#values.get(name) ?? []
  }

  /** Returns the texts of these fields without surrounding spaces. Omits empty texts. */
  filledTexts(names: readonly string[]): Readonly<Record<string, string>> {
    const texts = names.map((name) => [name, this.text(name).trim()] as const)
    return Object.fromEntries(texts.filter(([, text]) => text !== ''))
  }

  /** Returns one row for each value of the first member. A missing value of another member is ''. */
  rows<Member extends string>(
    name: string,
    first: Member,
    ...others: readonly Member[]
  ): readonly Readonly<Record<Member, string>>[]
  rows(name: string, ...members: readonly string[]): readonly Readonly<Record<string, string>>[] {
    const columns = members.map((member) => this.list(`${name}/${member}`))
    return (columns[0] ?? []).map((_, index) =>
      Object.fromEntries(members.map((member, column) => [member, columns[column]?.[index] ?? ''])),
    )
  }

  /**
   * Returns the fields as they were sent, for a form that sends them again. Omits secrets, and the fields in
   * `UNREPEATED_FIELDS`.
   */
  entries(): FieldEntry[] {
    return [...this.#sent].filter(([name]) => !this.#unrepeated.includes(name))
  }
}

export const NO_FIELDS: Fields = fieldsOf({})

/** Returns the fields of a form with the given values, as a browser would send them. */
export function fieldsOf(values: Readonly<Record<string, string | readonly string[]>>): Fields {
  const lists = Object.entries(values).map(
    ([name, value]) => [name, typeof value === 'string' ? [value] : value] as const,
  )
  const isJson = false
  return new Fields(isJson, new Map(lists))
}

/** Throws `Problem` 400, 415, 422. An empty body has no fields, whatever its type. */
export async function parseFields(
  body: Uint8Array<ArrayBuffer>,
  type: string,
  expected: ExpectedFields,
): Promise<Fields> {
  if (JSON_TYPE.test(type)) {
    if (body.length === 0) return new Fields(true, new Map())
    return new Fields(true, readJson(parseJsonObject(body), expected))
  }
  if (FORM_TYPE.test(type)) return readForm(body, expected)
  if (body.length === 0) return NO_FIELDS
  const file = expected.file ?? expected.binaryFile
  if (file !== undefined && MULTIPART_TYPE.test(type)) {
    const parts = await readParts(body, type, file, expected.binaryFile !== undefined)
    return fieldsOfForm(parts, expected)
  }
  throw unsupportedType()
}

export function unsupportedType(): Problem {
  const detail = 'Send application/json, or a form as application/x-www-form-urlencoded.'
  return new Problem('unsupported_media_type', detail, { headers: { accept: 'application/json' } })
}

function readJson(body: JsonObject, expected: ExpectedFields) {
  if (Object.keys(body).length > FIELDS_MAX) throw tooManyFields()
  const values = new Map<string, readonly string[]>()
  for (const [path, value] of membersOf(validateBody(schemaOf(expected), body))) {
    const columns = expected.rows?.[path]
    if (columns !== undefined) {
      for (const member of membersOfRows(columns)) {
        values.set(`${path}/${member}`, columnOf(value, member))
      }
    } else if (Array.isArray(value)) values.set(path, value.map(String))
    else values.set(path, [value === null ? '' : String(value)])
  }
  return values
}

/** PostgreSQL cannot store NUL characters, and UTF-8 cannot express lone surrogates. */
const ANY_TEXT = joi
  .string()
  .allow('')
  .pattern(/^[^\0\p{Cs}]*$/u, 'text without NUL and lone surrogates')
/** In a text or list, null counts as not sent. In a number, null is a value: it means that there is no number. */
const FIELD_SCHEMAS = {
  texts: ANY_TEXT.empty(null),
  lists: joi.array().items(ANY_TEXT).empty(null),
  numbers: joi.number().integer().allow(null),
} satisfies Record<'texts' | 'lists' | 'numbers', AnySchema>

const INITIAL_VALUES_SCHEMA = joi
  .object<InitialValues>()
  .pattern(joi.string(), [ANY_TEXT, joi.array().items(ANY_TEXT)])

function membersOfRows({ texts = [], numbers = [] }: Pick<ExpectedFields, 'texts' | 'numbers'>) {
  return [...texts, ...numbers]
}

function columnOf(rows: unknown, member: string): string[] {
  return (Array.isArray(rows) ? rows : []).map((row: unknown) => {
    const members = new Map<string, unknown>(
      Object.entries(typeof row === 'object' && row ? row : {}),
    )
    return String(members.get(member) ?? '')
  })
}

function schemaOf({
  texts = [],
  secrets = [],
  lists = [],
  numbers = [],
  rows = {},
}: ExpectedFields): ObjectSchema<JsonObject> {
  const schemas = new Map<string, AnySchema>([
    ...Object.entries(rows).map(
      ([path, members]) => [path, joi.array().items(schemaOf(members)).empty(null)] as const,
    ),
    ...[...texts, ...secrets].map((path) => [path, FIELD_SCHEMAS.texts] as const),
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

function membersOf(body: JsonObject): [path: string, value: unknown][] {
  return Object.entries(body).flatMap(([name, value]): [string, unknown][] => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[name, value]]
    return Object.entries(value).map(([inner, member]) => [`${name}/${inner}`, member])
  })
}

function readForm(body: Uint8Array, expected: ExpectedFields): Fields {
  const text = decode(body)
  // Parsing 500,000 fields would block the process for a second.
  if (text.split('&', FIELDS_MAX + 1).length > FIELDS_MAX) throw tooManyFields()
  const pairs = [...new URLSearchParams(text)]
  return fieldsOfForm(
    pairs.map(([name, value]) => [name, withLineFeeds(value)]),
    expected,
  )
}

/**
 * An uploaded file becomes two fields: if `file` is `logo`, these are `logo` with the content and `logo_name` with the
 * name of the file. Throws `Problem` 400.
 */
async function readParts(
  body: Uint8Array<ArrayBuffer>,
  type: string,
  file: string,
  isBinary: boolean,
): Promise<[name: string, value: string][]> {
  let form: FormData
  try {
    form = await new Response(body, { headers: { 'content-type': type } }).formData()
  } catch {
    throw badForm('The form is not valid multipart/form-data.')
  }
  const pairs: [string, string][] = []
  for (const [name, value] of form) {
    if (typeof value === 'string') {
      // This includes the text of a file that was uploaded in an earlier form. With CRLF, the file would be larger.
      pairs.push([name, withLineFeeds(value)])
    } else if (name !== file) {
      throw badForm('The form contains an unexpected file.')
    } else if (value.size > 0) {
      const content = isBinary
        ? Buffer.from(await value.arrayBuffer()).toString('base64')
        : await value.text()
      pairs.push([name, content], [`${file}_name`, value.name])
    }
  }
  return pairs
}

function fieldsOfForm(
  pairs: readonly (readonly [name: string, value: string])[],
  expected: ExpectedFields,
): Fields {
  const { texts = [], secrets = [], lists: plainLists = [], numbers = [], rows = {} } = expected
  const { file, ignoresUnchangedFields, acceptsPassword } = expected
  const inRows = Object.entries(rows).flatMap(([name, members]) =>
    membersOfRows(members).map((member) => `${name}/${member}`),
  )
  const lists = [...plainLists, ...inRows]
  const single = [
    ...['csrf_token', FORM_USER_ID],
    ...[...texts, ...secrets, ...numbers],
    ...(ignoresUnchangedFields ? [INITIAL_VALUES] : []),
    ...(acceptsPassword ? [PASSWORD] : []),
  ]
  const values = new Map<string, string[]>()
  if (pairs.length > FIELDS_MAX) throw tooManyFields()
  for (const [name, value] of pairs) {
    // Decoding has replaced bytes that are not UTF-8 with U+FFFD.
    if (name !== file && value.includes('\u{fffd}')) throw badForm(`${name} is not UTF-8.`)
    if (name !== file && value.includes('\0')) throw badForm(`${name} contains a NUL.`)
    const known = values.get(name)
    if (lists.includes(name)) values.set(name, [...(known ?? []), value])
    else if (!single.includes(name)) throw badForm('The form contains an unknown field.')
    else if (known !== undefined) throw badForm(`${name} was sent twice.`)
    else values.set(name, [value])
  }
  return new Fields(false, values, secrets)
}

/** A list whose initial value was not empty, and of which no value was sent, becomes an empty list. */
function omitUnchanged(
  sent: ReadonlyMap<string, readonly string[]>,
  initial: ParsedInitialValues,
): ReadonlyMap<string, readonly string[]> {
  const changed = new Map([...sent].filter(([name, values]) => !isSame(values, initial.get(name))))
  for (const [name, values] of initial) {
    if (values.length > 0 && Array.isArray(values) && !sent.has(name)) changed.set(name, [])
  }
  return changed
}

/** The order of a list does not matter: a form sends it in the order of the page. */
function isSame(sent: readonly string[], initial?: readonly string[] | string): boolean {
  if (initial === undefined) return false
  const values = [initial].flat().map(withLineFeeds).toSorted()
  return sent.length === values.length && sent.toSorted().every((text, at) => text === values[at])
}

/**
 * Browsers send line breaks as CRLF, but texts of forms are stored with LF. A text of a JSON client may have either.
 */
function withLineFeeds(text: string): string {
  return text.replaceAll('\r\n', '\n')
}

/** Throws `Problem` 400. */
function parseInitialValues(json: string): ParsedInitialValues {
  try {
    const values = validateBody(INITIAL_VALUES_SCHEMA, parseJsonObject(Buffer.from(json)))
    return new Map(Object.entries(values))
  } catch {
    throw badForm(`${INITIAL_VALUES} is malformed.`)
  }
}

function decode(body: Uint8Array): string {
  try {
    const text = utf8.decode(body)
    if (!/%(?![0-9a-f]{2})/i.test(text)) return text
  } catch {
    // Invalid UTF-8 is reported like an invalid percent-encoding.
  }
  throw badForm('The form is not percent-encoded UTF-8.')
}

function tooManyFields(): Problem {
  return badForm(`The request has more than ${FIELDS_MAX} fields.`)
}

function badForm(detail: string): Problem {
  return new Problem('bad_request', detail)
}
