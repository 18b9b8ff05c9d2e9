/**
 * Reads requests in the one strict way of RFC 9112: no line end but CRLF, no folding, no space that the
 * grammar does not have. Node's parser silently accepts several spaces for one and RTSP for HTTP, and
 * drops what follows an upgrade.
 */
import { type Http1Error, headersTooLarge, malformed, targetTooLong } from './errors.ts'
import { parseFields } from './fields.ts'
import { HeadBuffer } from './head-buffer.ts'
import { REQUEST_HEAD_BYTES_MAX, TARGET_BYTES_MAX } from './limits.ts'

const CR = 13
const LF = 10

const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) HTTP\/(\d\.\d)$/
const TAB = 9
const SPACE = 32
const DELETE = 127

/** A head whose lines are well-formed; what they mean is not validated yet. */
export interface RawRequestHead {
  readonly method: string
  readonly target: string
  /** e.g. `1.1` */
  readonly version: string
  /** Names in lower case and values alternate. */
  readonly fields: readonly string[]
}

export class RequestReader {
  readonly #buffer = new HeadBuffer()

  /** Whether every byte that has arrived belongs to an earlier request. */
  get isEmpty(): boolean {
    return this.#buffer.bytes.length === 0
  }

  get length(): number {
    return this.#buffer.bytes.length
  }

  push(bytes: Buffer): void {
    this.#buffer.push(bytes)
  }

  /** See `HeadBuffer.compact`. */
  compact(): void {
    this.#buffer.compact()
  }

  /** The bytes behind the last head. A body decoder consumes its share; push back the rest. */
  takeAll(): Buffer {
    return this.#buffer.takeAll()
  }

  /** The next head; undefined while more bytes are needed. Throws `Http1Error` as soon as it can be none. */
  readHead(): RawRequestHead | undefined {
    // Most clients send the next request only once they have received the response to the last.
    if (this.isEmpty) return undefined
    this.#skipEmptyLines()
    const head = this.#buffer.takeHead(REQUEST_HEAD_BYTES_MAX)
    if (head !== undefined) return parseHead(head.bytes, head.text)
    this.#checkIncomplete()
    return undefined
  }

  /** RFC 9112, section 2.2: old clients send an additional line end behind a body. */
  #skipEmptyLines(): void {
    const { bytes } = this.#buffer
    let at = 0
    while (bytes[at] === CR && bytes[at + 1] === LF) at += 2
    if (at > 0) this.#buffer.drop(at)
  }

  /** Rejects what can no longer become a head at once, and not when its time has passed. */
  #checkIncomplete(): void {
    const { bytes, searched } = this.#buffer
    if (bytes.length > REQUEST_HEAD_BYTES_MAX) throw this.#tooLong()
    if (isNeverInHead(bytes, searched)) throw malformed()
    const line = bytes.indexOf('\r\n', 0, 'latin1')
    if (line >= searched) parseRequestLine(bytes.toString('latin1', 0, line))
    this.#buffer.markSearched()
  }

  #tooLong(): Http1Error {
    const line = this.#buffer.bytes.indexOf('\r\n', 0, 'latin1')
    return line < 0 || line > TARGET_BYTES_MAX ? targetTooLong() : headersTooLarge()
  }
}

/**
 * Whether there is a control character, or half of a line end, from this offset on. A loop, since a regular expression
 * takes four times as long: a flood of unfinished heads takes its time from the calls of others.
 */
function isNeverInHead(bytes: Buffer, from: number): boolean {
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if ((byte >= SPACE && byte !== DELETE) || byte === TAB) continue
    const next = bytes[at + 1] ?? LF
    if (byte === CR ? next !== LF : byte !== LF || (at > from && bytes[at - 1] !== CR)) return true
  }
  return false
}

function parseHead(bytes: Buffer, text: string): RawRequestHead {
  const end = text.indexOf('\r\n')
  const { method, target, version } = parseRequestLine(end < 0 ? text : text.slice(0, end))
  return { method, target, version, fields: end < 0 ? [] : parseFields(bytes, text, end + 2) }
}

function parseRequestLine(text: string): Omit<RawRequestHead, 'fields'> {
  const [, method, target, version] = REQUEST_LINE.exec(text) ?? []
  if (method === undefined || target === undefined || version === undefined) throw malformed()
  return { method, target, version }
}
