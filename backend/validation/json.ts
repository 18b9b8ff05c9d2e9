/**
 * JSON as the gateway's next hop, the log and a client's other library would all read it: UTF-8, one
 * object, each name once, bounded nesting. `JSON.parse` keeps the last of two equal names, and two
 * readers that keep different ones see two different payments.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { faultsProblem } from './faults.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** Far above any body of ours; keeps every recursion over a body shallow. */
const DEPTH_MAX = 20

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Throws `malformed_json` and `duplicate_json_key`. */
export function parseJsonObject(bytes: Uint8Array): JsonObject {
  const { text, value } = parse(bytes)
  if (!isObject(value)) {
    throw malformed('The body must be a JSON object, for example {"name": "Jansen Bouw B.V."}.')
  }
  checkNames(text)
  return value
}

/** A JSON pointer (RFC 6901) to a member or an element. */
export function jsonPointer(path: readonly (string | number)[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/**
 * The same text for all bodies that mean the same: names sorted, numbers as the number they are
 * (1e2 is 100), null members left out because null means omitted.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (isObject(value)) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== null)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`)
    return `{${members.join(',')}}`
  }
  // Infinity, which JSON.parse makes of 1e999, must not read as null.
  return typeof value === 'number' ? String(value + 0) : JSON.stringify(value)
}

function isObject(value: unknown): value is JsonObject {
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

/** An open object or array: where in it we are, and the names seen so far. */
type Frame = { readonly names: Set<string>; at: string } | { readonly names: undefined; at: number }

/** Walks text that is known to be valid JSON, so strings and brackets are all there is to see. */
function checkNames(text: string): void {
  const frames: Frame[] = []
  let expectsName = false
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    const frame = frames.at(-1)
    if (character === '"') {
      const end = endOfString(text, i)
      if (expectsName && frame?.names !== undefined) {
        frame.at = String(JSON.parse(text.slice(i, end + 1)))
        checkName(frame.names, frame.at, frames)
        expectsName = false
      }
      i = end
    } else if (character === '{') {
      frames.push({ names: new Set(), at: '' })
      expectsName = true
    } else if (character === '[') {
      frames.push({ names: undefined, at: 0 })
      expectsName = false
    } else if (character === '}' || character === ']') {
      frames.pop()
    } else if (character === ',' && frame !== undefined) {
      if (frame.names === undefined) frame.at++
      expectsName = frame.names !== undefined
    }
    if (frames.length > DEPTH_MAX) throw malformed(`The body is nested deeper than ${DEPTH_MAX}.`)
  }
}

function checkName(names: Set<string>, name: string, frames: readonly Frame[]): void {
  if (!names.has(name) && name !== '__proto__') {
    names.add(name)
    return
  }
  const pointer = jsonPointer(frames.map(({ at }) => at))
  if (names.has(name)) {
    throw new Problem(
      'duplicate_json_key',
      `The member ${pointer} is in the body more than once.`,
      {
        members: { pointer },
      },
    )
  }
  // Copying an object by assignment loses this one member, so it would pass for not sent.
  throw faultsProblem([{ pointer, code: 'unknown_field', detail: 'This field does not exist.' }])
}

/** The index of the closing quote. */
function endOfString(text: string, start: number): number {
  let i = start + 1
  while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1
  return i
}
