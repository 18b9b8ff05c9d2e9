/**
 * Parses JSON that every program interprets in the same way: UTF-8, one object, no duplicate names. Of two members with
 * the same name, `JSON.parse` keeps the last. A program that keeps the first would read a different payment.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { fieldErrorsProblem } from './field-errors.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** Limits the depth of recursion over a body. No valid body is nested so deeply. */
const DEPTH_MAX = 20

/**
 * The maximum number of members and elements in a body. Joi takes up to 20 µs to reject each of them, and fails with
 * an overflow of the stack if it rejects more than 100,000. The largest valid bodies have about a thousand.
 */
const VALUES_MAX = 10_000

/** Despite its name, `ignoreBOM` keeps a byte order mark in the text, so that `JSON.parse` rejects it. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Throws `malformed_json`, `duplicate_json_key` or, for a member named `__proto__`, `validation_failed`. */
export function parseJsonObject(bytes: Uint8Array): JsonObject {
  const { text, value } = parse(bytes)
  if (!isJsonObject(value)) {
    throw malformed('The body must be a JSON object, for example {"name": "Jansen Bouw B.V."}.')
  }
  checkStructure(text)
  return value
}

/** A JSON pointer (RFC 6901) to a member or an element. */
export function jsonPointer(path: readonly (string | number)[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/**
 * Returns the same text for all bodies with the same meaning: names are sorted, numbers normalized (1e2 is
 * 100), and null members omitted, because null means absent.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (isJsonObject(value)) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== null)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`)
    return `{${members.join(',')}}`
  }
  // JSON.parse returns Infinity for 1e999. JSON.stringify would write Infinity as null, which has another meaning.
  return typeof value === 'number' ? String(value) : JSON.stringify(value)
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parse(bytes: Uint8Array): { text: string; value: unknown } {
  if (bytes.length === 0) throw malformed('The body is empty; send a JSON object.')
  try {
    const text = utf8.decode(bytes)
    return { text, value: JSON.parse(text) }
  } catch (cause) {
    throw malformed('The body is not valid JSON in UTF-8.', cause)
  }
}

function malformed(detail: string, cause?: unknown): Problem {
  return new Problem('malformed_json', detail, { cause })
}

/**
 * An object or array that is being scanned. `at` is the current name or index; `names` contains the names of an object
 * so far, and is undefined for an array.
 */
type Frame = { readonly names: Set<string>; at: string } | { readonly names: undefined; at: number }

/**
 * Rejects duplicate names, the name `__proto__`, too many levels and too many values. The text is known to be valid
 * JSON, so only strings, brackets and commas matter.
 */
function checkStructure(text: string): void {
  const frames: Frame[] = []
  /** The number of commas and opening brackets. Each member or element follows one of them. */
  let values = 0
  let expectsName = false
  let protoPointer: string | undefined
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    const frame = frames.at(-1)
    if (character === '"') {
      const end = endOfString(text, i)
      if (expectsName && frame?.names !== undefined) {
        frame.at = String(JSON.parse(text.slice(i, end + 1)))
        addUniqueName(frame.names, frame.at, frames)
        if (frame.at === '__proto__') protoPointer ??= jsonPointer(frames.map(({ at }) => at))
        expectsName = false
      }
      i = end
    } else if (character === '{') {
      frames.push({ names: new Set(), at: '' })
      values++
      expectsName = true
    } else if (character === '[') {
      frames.push({ names: undefined, at: 0 })
      values++
      expectsName = false
    } else if (character === '}' || character === ']') {
      frames.pop()
    } else if (character === ',' && frame !== undefined) {
      values++
      if (frame.names === undefined) frame.at++
      expectsName = frame.names !== undefined
    }
    if (frames.length > DEPTH_MAX)
      throw malformed(`The body is nested deeper than ${DEPTH_MAX} levels.`)
    if (values > VALUES_MAX)
      throw malformed(
        `The body has more than ${VALUES_MAX.toLocaleString('en')} members and elements.`,
      )
  }
  if (protoPointer === undefined) return
  // Copying an object by assignment loses a member with this name, which would then count as absent. This error is
  // thrown last, because errors in the JSON (400) take precedence over errors in fields (422).
  const detail = '__proto__ is not a field of this object'
  throw fieldErrorsProblem([{ pointer: protoPointer, code: 'unknown_field', detail }])
}

function addUniqueName(names: Set<string>, name: string, frames: readonly Frame[]): void {
  if (names.has(name)) {
    const pointer = jsonPointer(frames.map(({ at }) => at))
    throw new Problem(
      'duplicate_json_key',
      `The member ${pointer} is in the body more than once.`,
      { members: { pointer } },
    )
  }
  names.add(name)
}

/** Returns the index of the closing quotation mark. */
function endOfString(text: string, start: number): number {
  let i = start + 1
  while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1
  return i
}
