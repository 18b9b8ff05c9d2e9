/** Where a body ends (RFC 9112, section 6): of requests and of answers. Malformed framing throws `Problem`. */
import { malformed, parseFields } from './fields.ts'
import { type BodyFraming, HEADER_BYTES_MAX, headersTooLarge } from './request-head.ts'

const EMPTY: Buffer = Buffer.alloc(0)

type OnPart = (part: Buffer) => void

export type Framing = LengthFraming | ChunkedFraming

export function createFraming(framing: BodyFraming): Framing {
  return framing.kind === 'length' ? new LengthFraming(framing.bytes) : new ChunkedFraming()
}

/** RFC 9112, section 6.3: as many bytes as `Content-Length` says. */
export class LengthFraming {
  #left: number

  constructor(bytes: number) {
    this.#left = bytes
  }

  /** Gives what stands behind the body, once its end is there. */
  take(bytes: Buffer, onPart: OnPart): Buffer | undefined {
    // Mostly all of it is the body, and all of the body: each view of bytes costs more than to look.
    const part = bytes.length <= this.#left ? bytes : bytes.subarray(0, this.#left)
    this.#left -= part.length
    if (part.length > 0) onPart(part)
    if (this.#left > 0) return undefined
    return part.length === bytes.length ? EMPTY : bytes.subarray(part.length)
  }
}

/** A line of a chunked body, its size or a trailer, is no longer than this. */
const LINE_BYTES_MAX = HEADER_BYTES_MAX
/** RFC 9112, section 7.1.1, without the blanks that only old senders write. */
const CHUNK_SIZE =
  /^([0-9A-Fa-f]{1,12})(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"))?)*$/
/** Fields that a trailer may not bring: they would say how long the body is. */
const NEVER_IN_A_TRAILER = new Set(['content-length', 'transfer-encoding'])
const LF = 10

/** RFC 9112, section 7.1. Trailers are checked and dropped. */
export class ChunkedFraming {
  #state: 'size' | 'data' | 'data end' | 'trailer' = 'size'
  #left = 0
  #trailerBytes = 0
  /** What has come of a line. */
  #begun = EMPTY

  take(bytes: Buffer, onPart: OnPart): Buffer | undefined {
    let rest = this.#begun.length === 0 ? bytes : Buffer.concat([this.#begun, bytes])
    this.#begun = EMPTY
    for (;;) {
      if (this.#state === 'data') {
        const part = rest.subarray(0, this.#left)
        this.#left -= part.length
        if (part.length > 0) onPart(part)
        if (this.#left > 0) return undefined
        rest = rest.subarray(part.length)
        this.#state = 'data end'
      }
      const end = rest.indexOf('\r\n', 0, 'latin1')
      if (end < 0) {
        this.#keepBegun(rest)
        return undefined
      }
      const line = rest.toString('latin1', 0, end)
      const isLast = this.#takeLine(line, rest)
      rest = rest.subarray(end + 2)
      if (isLast) return rest
    }
  }

  /** Whether it was the last. `bytes` begin with it. */
  #takeLine(line: string, bytes: Buffer): boolean {
    if (this.#state === 'trailer') return this.#takeTrailer(line, bytes)
    if (this.#state === 'data end') {
      if (line !== '') throw malformed()
      this.#state = 'size'
      return false
    }
    const digits = line.length > LINE_BYTES_MAX ? undefined : CHUNK_SIZE.exec(line)?.[1]
    if (digits === undefined) throw malformed()
    this.#left = Number.parseInt(digits, 16)
    this.#state = this.#left === 0 ? 'trailer' : 'data'
    return false
  }

  #takeTrailer(line: string, bytes: Buffer): boolean {
    if (line === '') return true
    this.#trailerBytes += line.length
    if (this.#trailerBytes > LINE_BYTES_MAX) throw headersTooLarge()
    const [name = ''] = parseFields(bytes, line, 0)
    if (NEVER_IN_A_TRAILER.has(name)) throw malformed()
    return false
  }

  #keepBegun(line: Buffer): void {
    if (line.includes(LF) || (this.#state === 'data end' && line.length > 1)) throw malformed()
    if (line.length > LINE_BYTES_MAX) {
      throw this.#state === 'trailer' ? headersTooLarge() : malformed()
    }
    // A copy: the packet it came in may be large.
    this.#begun = Buffer.from(line)
  }
}
