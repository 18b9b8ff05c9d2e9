/** Header fields, read the one strict way (RFC 9112, section 5): of requests, answers and trailers. */
import { Problem } from '../shared/problem.ts'

const FIELD_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** RFC 9110, section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const SPACE = 32
const TAB = 9

/** Names in lower case and values, in turn. `text` ends without the line end of its last line. */
export function parseFields(text: string, from: number): string[] {
  const fields: string[] = []
  for (let at = from; at <= text.length; ) {
    const next = text.indexOf('\r\n', at)
    const end = next < 0 ? text.length : next
    parseField(text.slice(at, end), fields)
    at = end + 2
  }
  return fields
}

/** Onto the end of `fields`. Throws `Problem` 400. */
export function parseField(line: string, fields: string[]): void {
  const colon = line.indexOf(':')
  const name = line.slice(0, colon)
  if (colon < 1 || !FIELD_NAME.test(name) || !isFieldValue(line)) throw malformed()
  let from = colon + 1
  let to = line.length
  while (isBlank(line.charCodeAt(from))) from++
  while (to > from && isBlank(line.charCodeAt(to - 1))) to--
  const lowerCase = name.toLowerCase()
  // Not every hop takes a tab for a space here, and one that does not takes the body for a request.
  if (lowerCase === 'transfer-encoding' && line.includes('\t')) throw malformed()
  fields.push(lowerCase, line.slice(from, to))
}

/** Whether it can stand in a field as it is. */
export function isFieldValue(text: string): boolean {
  return FIELD_VALUE.test(text)
}

export function malformed(): Problem {
  return new Problem('bad_request', 'This is not well-formed HTTP/1.1.')
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB
}
