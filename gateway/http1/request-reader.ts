/**
 * Reads the heads of requests strictly by RFC 9112: lines end with CRLF, are not folded, and have no spaces that the
 * grammar does not allow. Node's parser is less strict (docs/decisions/0001-own-http1.md).
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

/** A head whose lines are well-formed. Their meaning is not validated yet. */
export interface RawRequestHead {
  readonly method: string
  readonly target: string
  /** e.g. `1.1` */
  readonly version: string
  /** Names, in lower case, and values alternate. */
  readonly fields: readonly string[]
}

export class RequestReader {
  readonly #buffer = new HeadBuffer()

  get isEmpty(): boolean {
    return this.#buffer.bytes.length === 0
  }

  /** The number of buffered bytes. */
  get length(): number {
    return this.#buffer.bytes.length
  }

  push(bytes: Buffer): void {
    this.#buffer.push(bytes)
  }

  /** Copies the buffered bytes if they keep much more memory in use than they need. */
  compact(): void {
    this.#buffer.compact()
  }

  /** Removes all bytes and returns their memory, so that the caller can free it at once. */
  clear(): Buffer {
    return this.#buffer.clear()
  }

  /** Removes and returns the bytes after the last head. The caller must push back those after the body. */
  takeAll(): Buffer {
    return this.#buffer.takeAll()
  }

  /**
   * Returns the next head, or undefined while it is incomplete. Throws `Http1Error` if the head is malformed or too
   * long.
   */
  readHead(): RawRequestHead | undefined {
    if (this.isEmpty) return undefined
    this.#skipEmptyLines()
    const head = this.#buffer.takeHead(REQUEST_HEAD_BYTES_MAX)
    if (head !== undefined) return parseHead(head.bytes, head.text)
    this.#checkBeginning()
    return undefined
  }

  /** RFC 9112, section 2.2: old clients send an additional line end after a body. */
  #skipEmptyLines(): void {
    const { bytes } = this.#buffer
    let offset = 0
    while (bytes[offset] === CR && bytes[offset + 1] === LF) offset += 2
    if (offset > 0) this.#buffer.drop(offset)
  }

  /**
   * Called if `takeHead` has returned no head: the head is incomplete, or too long. Rejects it if it is too long, has
   * an invalid byte, or begins with a malformed request line. Without this check, such a client would get no response
   * until the deadline.
   */
  #checkBeginning(): void {
    const { bytes, searchedLength } = this.#buffer
    if (bytes.length > REQUEST_HEAD_BYTES_MAX) throw this.#tooLong()
    if (hasInvalidByte(bytes, searchedLength)) throw malformed()
    const lineEnd = bytes.indexOf('\r\n', 0, 'latin1')
    // The request line is checked when its end has arrived, and not again with each later packet.
    if (lineEnd >= searchedLength) parseRequestLine(bytes.toString('latin1', 0, lineEnd))
    this.#buffer.markSearched()
  }

  #tooLong(): Http1Error {
    const lineEnd = this.#buffer.bytes.indexOf('\r\n', 0, 'latin1')
    return lineEnd < 0 || lineEnd > TARGET_BYTES_MAX ? targetTooLong() : headersTooLarge()
  }
}

/**
 * Whether the bytes from offset `from` on contain a CR or LF that is not part of a CRLF, or any other control character
 * except a tab. Four bytes are tested at a time, because a flood of incomplete heads takes CPU time from other clients.
 * Testing single bytes takes four times as long, and a regular expression sixteen times.
 */
function hasInvalidByte({ buffer, byteOffset, length }: Buffer, from: number): boolean {
  const bytes = new Uint8Array(buffer)
  const words = new Int32Array(buffer, 0, buffer.byteLength >> 2)
  const begin = byteOffset + from
  const end = byteOffset + length
  for (let offset = begin; offset < end; offset++) {
    while ((offset & 3) === 0 && offset + 4 <= end && !hasControl(words[offset >> 2] ?? 0))
      offset += 4
    if (offset === end) return false
    const byte = bytes[offset] ?? 0
    if ((byte >= SPACE && byte !== DELETE) || byte === TAB) continue
    // A CR in the last byte is accepted, because its LF may still arrive.
    const next = offset + 1 < end ? bytes[offset + 1] : LF
    const before = offset > byteOffset ? bytes[offset - 1] : undefined
    if (byte === CR ? next !== LF : byte !== LF || before !== CR) return true
  }
  return false
}

/**
 * Whether one of the four bytes of `word` is below `SPACE` or is `DELETE`. The first subtraction sets the highest bit
 * of each byte below `SPACE`. The exclusive or turns `DELETE` into 0, and the second subtraction sets the highest bit
 * of each 0. `& ~` excludes the bytes whose highest bit was set before.
 */
function hasControl(word: number): boolean {
  const zeroIfDelete = word ^ 0x7f7f7f7f
  const borrowed = ((word - 0x20202020) & ~word) | ((zeroIfDelete - 0x01010101) & ~zeroIfDelete)
  return (borrowed & 0x80808080) !== 0
}

function parseHead(bytes: Buffer, text: string): RawRequestHead {
  const lineEnd = text.indexOf('\r\n')
  const { method, target, version } = parseRequestLine(lineEnd < 0 ? text : text.slice(0, lineEnd))
  return {
    method,
    target,
    version,
    fields: lineEnd < 0 ? [] : parseFields(bytes, text, lineEnd + 2),
  }
}

function parseRequestLine(text: string): Omit<RawRequestHead, 'fields'> {
  const [, method, target, version] = REQUEST_LINE.exec(text) ?? []
  if (method === undefined || target === undefined || version === undefined) throw malformed()
  return { method, target, version }
}
