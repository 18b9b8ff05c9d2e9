/** Decodes the body of a request or response, and finds its end (RFC 9112, section 6). Throws `Http1Error`. */
import { headersTooLarge, malformed } from './errors.ts'
import { parseFields } from './fields.ts'
import { CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX } from './limits.ts'

export type BodyFraming =
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'chunked' }

export interface BodyDecoder {
  /**
   * Calls `onPart` with each part of the body in `bytes`. Returns the bytes after the body once its end has
   * arrived; until then, returns undefined.
   */
  decode(bytes: Buffer, onPart: (part: Buffer) => void): Buffer | undefined
}

export function createBodyDecoder(framing: BodyFraming): BodyDecoder {
  return framing.kind === 'length' ? new LengthDecoder(framing.bytes) : new ChunkedDecoder()
}

const EMPTY: Buffer = Buffer.alloc(0)

/** Decodes a body whose length is in `Content-Length` (RFC 9112, section 6.3). */
class LengthDecoder implements BodyDecoder {
  #remaining: number

  constructor(bytes: number) {
    this.#remaining = bytes
  }

  decode(bytes: Buffer, onPart: (part: Buffer) => void): Buffer | undefined {
    // Usually all of `bytes` belongs to the body. Creating a view would take longer than this comparison.
    const part = bytes.length <= this.#remaining ? bytes : bytes.subarray(0, this.#remaining)
    this.#remaining -= part.length
    if (part.length > 0) onPart(part)
    if (this.#remaining > 0) return undefined
    return part.length === bytes.length ? EMPTY : bytes.subarray(part.length)
  }
}

/**
 * The size of a chunk, and extensions (RFC 9112, section 7.1.1). Spaces around an extension, which only old
 * senders write, are rejected.
 */
const CHUNK_SIZE =
  /^([0-9A-Fa-f]{1,12})(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"))?)*$/
/** A trailer with one of these names could change how another server determines the length of the body. */
const FORBIDDEN_TRAILERS = new Set(['content-length', 'transfer-encoding'])
const LF = 10

/** Decodes a chunked body (RFC 9112, section 7.1). Trailers are validated and dropped. */
class ChunkedDecoder implements BodyDecoder {
  #state: 'size' | 'data' | 'data end' | 'trailer' = 'size'
  /** The remaining bytes of the current chunk. */
  #remaining = 0
  #trailerBytes = 0
  /** The beginning of a line whose end has not arrived. */
  #partialLine = EMPTY

  decode(bytes: Buffer, onPart: (part: Buffer) => void): Buffer | undefined {
    let rest = this.#partialLine.length === 0 ? bytes : Buffer.concat([this.#partialLine, bytes])
    this.#partialLine = EMPTY
    for (;;) {
      if (this.#state === 'data') {
        const part = rest.subarray(0, this.#remaining)
        this.#remaining -= part.length
        if (part.length > 0) onPart(part)
        if (this.#remaining > 0) return undefined
        rest = rest.subarray(part.length)
        this.#state = 'data end'
      }
      const end = rest.indexOf('\r\n', 0, 'latin1')
      if (end < 0) {
        this.#keepPartialLine(rest)
        return undefined
      }
      const line = rest.toString('latin1', 0, end)
      const isLast = this.#readLine(line, rest)
      rest = rest.subarray(end + 2)
      if (isLast) return rest
    }
  }

  /** Parses `line`, the first line of `bytes`. Returns whether the line ends the body. */
  #readLine(line: string, bytes: Buffer): boolean {
    if (this.#state === 'trailer') return this.#readTrailer(line, bytes)
    if (this.#state === 'data end') {
      if (line !== '') throw malformed()
      this.#state = 'size'
      return false
    }
    const digits = line.length > CHUNK_LINE_BYTES_MAX ? undefined : CHUNK_SIZE.exec(line)?.[1]
    if (digits === undefined) throw malformed()
    this.#remaining = Number.parseInt(digits, 16)
    this.#state = this.#remaining === 0 ? 'trailer' : 'data'
    return false
  }

  #readTrailer(line: string, bytes: Buffer): boolean {
    if (line === '') return true
    this.#trailerBytes += line.length
    if (this.#trailerBytes > TRAILER_BYTES_MAX) throw headersTooLarge()
    const [name = ''] = parseFields(bytes, line, 0)
    if (FORBIDDEN_TRAILERS.has(name)) throw malformed()
    return false
  }

  #keepPartialLine(line: Buffer): void {
    if (line.includes(LF) || (this.#state === 'data end' && line.length > 1)) throw malformed()
    if (line.length > CHUNK_LINE_BYTES_MAX) {
      throw this.#state === 'trailer' ? headersTooLarge() : malformed()
    }
    // The packet may be large, so only the line is kept, as a copy.
    this.#partialLine = Buffer.from(line)
  }
}
