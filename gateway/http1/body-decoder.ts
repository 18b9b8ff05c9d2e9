/** Decodes the body of a request or response, and finds its end (RFC 9112, section 6). Throws `Http1Error`. */
import { headersTooLarge, malformed } from './errors.ts'
import { parseFields } from './fields.ts'
import { GrowingBuffer } from './growing-buffer.ts'
import { CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX } from './limits.ts'

export type BodyFraming =
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'chunked' }

export interface BodyDecoder {
  /** The number of bytes that the decoder keeps until more bytes arrive. */
  readonly bufferedBytes: number
  /**
   * Calls `onPart` with each part of the body in `bytes`. Returns the bytes after the body; undefined if the body has
   * not ended.
   */
  decode(bytes: Buffer, onPart: (part: Buffer) => void): Buffer | undefined
}

export function createBodyDecoder(framing: BodyFraming): BodyDecoder {
  return framing.kind === 'length' ? new LengthDecoder(framing.bytes) : new ChunkedDecoder()
}

const EMPTY: Buffer = Buffer.alloc(0)

class LengthDecoder implements BodyDecoder {
  readonly bufferedBytes = 0
  #remaining: number

  constructor(bytes: number) {
    this.#remaining = bytes
  }

  decode(bytes: Buffer, onPart: (part: Buffer) => void): Buffer | undefined {
    // Usually, all of `bytes` belongs to the body. Creating a view would take longer than this comparison.
    const part = bytes.length <= this.#remaining ? bytes : bytes.subarray(0, this.#remaining)
    this.#remaining -= part.length
    if (part.length > 0) onPart(part)
    if (this.#remaining > 0) return undefined
    return part.length === bytes.length ? EMPTY : bytes.subarray(part.length)
  }
}

/** The maximum number of hexadecimal digits of a size. Numbers with so many digits are exact in JavaScript. */
const SIZE_DIGITS_MAX = 12
/**
 * The extensions of a chunk (RFC 9112, section 7.1.1). Spaces around an extension are rejected: only old senders write
 * them.
 */
const CHUNK_EXTENSIONS =
  /^(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"))?)*$/
/** A trailer with one of these names could change how another server determines the length of the body. */
const FORBIDDEN_TRAILERS = new Set(['content-length', 'transfer-encoding'])
const CR = 13
const LF = 10
/** Up to this length, testing each byte finds the end of a line in less time than a call of `indexOf`. */
const SHORT_LINE_BYTES = 8

/** Decodes a chunked body (RFC 9112, section 7.1). Trailers are validated and dropped. */
class ChunkedDecoder implements BodyDecoder {
  #state: 'size' | 'data' | 'data end' | 'trailer' = 'size'
  #remaining = 0
  #trailerBytes = 0
  /** Between two calls of `decode`, the beginning of a line whose end has not arrived. */
  readonly #buffer = new GrowingBuffer()

  get bufferedBytes(): number {
    return this.#buffer.bytes.length
  }

  decode(bytes: Buffer, onPart: (part: Buffer) => void): Buffer | undefined {
    this.#buffer.push(bytes)
    const all = this.#buffer.bytes
    let offset = 0
    for (;;) {
      if (this.#state === 'data') {
        const end = Math.min(offset + this.#remaining, all.length)
        this.#remaining -= end - offset
        if (end > offset) onPart(all.subarray(offset, end))
        if (this.#remaining > 0) {
          this.#buffer.drop(all.length)
          return undefined
        }
        offset = end
        this.#state = 'data end'
      }
      const end = endOfLine(all, offset)
      if (end < 0) {
        this.#buffer.drop(offset)
        this.#keepPartialLine()
        return undefined
      }
      const isLast = this.#readLine(all, offset, end)
      offset = end + 2
      if (isLast) {
        this.#buffer.drop(offset)
        return this.#buffer.takeAll()
      }
    }
  }

  /** Parses the line between the two offsets. Returns whether it ends the body. */
  #readLine(bytes: Buffer, from: number, end: number): boolean {
    if (this.#state === 'trailer') return this.#readTrailer(bytes.subarray(from), end - from)
    if (this.#state === 'data end') {
      if (end > from) throw malformed()
      this.#state = 'size'
      return false
    }
    this.#remaining = readSize(bytes, from, end)
    this.#state = this.#remaining === 0 ? 'trailer' : 'data'
    return false
  }

  /** Parses the line at the beginning of `bytes`. Returns whether it ends the body. */
  #readTrailer(bytes: Buffer, length: number): boolean {
    if (length === 0) return true
    const line = bytes.toString('latin1', 0, length)
    this.#trailerBytes += length
    if (this.#trailerBytes > TRAILER_BYTES_MAX) throw headersTooLarge()
    const [name = ''] = parseFields(bytes, line, 0)
    if (FORBIDDEN_TRAILERS.has(name)) throw malformed()
    return false
  }

  /** Keeps the beginning of a line until its end arrives. Throws if the line is already malformed or too long. */
  #keepPartialLine(): void {
    const line = this.#buffer.bytes
    // An LF here has no CR before it. The line after a chunk's data is empty, so at most its CR can have arrived.
    if (line.includes(LF) || (this.#state === 'data end' && line.length > 1)) throw malformed()
    if (this.#state === 'trailer' && line.length > TRAILER_BYTES_MAX) throw headersTooLarge()
    if (line.length > CHUNK_LINE_BYTES_MAX) throw malformed()
    this.#buffer.compact()
    // The line may still be in the memory of `bytes`, which the caller of `decode` may reuse.
    this.#buffer.detach()
  }
}

/** Returns the offset of the first CRLF from `from` on; -1 if there is none. */
function endOfLine(bytes: Buffer, from: number): number {
  for (let offset = from; offset < from + SHORT_LINE_BYTES; offset++) {
    if (bytes[offset] === CR && bytes[offset + 1] === LF) return offset
  }
  return bytes.indexOf('\r\n', from, 'latin1')
}

/**
 * Reads the size of a chunk from the line between the two offsets. Nearly all lines have no extensions, and are read
 * without a regular expression and a string: with these, a body in chunks of one byte would take seven times as long.
 */
function readSize(bytes: Buffer, from: number, end: number): number {
  let size = 0
  let offset = from
  for (; offset < end && offset < from + SIZE_DIGITS_MAX; offset++) {
    const digit = hexDigit(bytes[offset] ?? 0)
    if (digit === undefined) break
    size = 16 * size + digit
  }
  if (offset === end && end > from) return size
  if (end - from > CHUNK_LINE_BYTES_MAX) throw malformed()
  if (offset === from || !CHUNK_EXTENSIONS.test(bytes.toString('latin1', offset, end))) {
    throw malformed()
  }
  return size
}

function hexDigit(byte: number): number | undefined {
  if (byte >= 48 && byte <= 57) return byte - 48
  const lowerCase = byte | 32
  return lowerCase >= 97 && lowerCase <= 102 ? lowerCase - 87 : undefined
}
