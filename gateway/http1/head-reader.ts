/**
 * Requests out of bytes, read the one strict way (RFC 9112): no line end but CRLF, no folding, no space
 * that the grammar does not have. We read them ourselves: Node's parser takes several spaces for one and
 * RTSP for HTTP, and drops what stands behind an upgrade, all without saying so.
 */
import type { Problem } from '../../shared/contract/problem.ts'
import { malformed, parseFields } from './fields.ts'
import {
  HEADER_BYTES_MAX,
  headersTooLarge,
  type RawHead,
  TARGET_BYTES_MAX,
  targetTooLong,
} from './request-head.ts'

/** Beyond it a head is given up; below it, `checkHead` says which part is too long. */
const HEAD_BYTES_MAX = 2 * (TARGET_BYTES_MAX + HEADER_BYTES_MAX)
const END_OF_HEAD = '\r\n\r\n'
const CR = 13
const LF = 10

const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) HTTP\/(\d\.\d)$/
/** A control character, or a line end that is none. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const NEVER_IN_A_HEAD = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<=[^\r])\n|\r(?=[^\n])/

const EMPTY: Buffer = Buffer.alloc(0)

export class RequestReader {
  #bytes = EMPTY
  /** No head ends before it. */
  #searched = 0

  /** Whether nothing has come behind the last request. */
  get isEmpty(): boolean {
    return this.#bytes.length === 0
  }

  get length(): number {
    return this.#bytes.length
  }

  push(bytes: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
  }

  /** What has come behind the last head; a body takes its part of it and gives the rest back. */
  takeAll(): Buffer {
    const bytes = this.#bytes
    this.#forget(bytes.length)
    return bytes
  }

  /** The next head; undefined where more bytes are needed. Throws `Problem` where it can be none. */
  readHead(): RawHead | undefined {
    // Most clients send the next request when they have the answer to the last.
    if (this.isEmpty) return undefined
    this.#skipEmptyLines()
    const end = this.#bytes.indexOf(END_OF_HEAD, this.#searched, 'latin1')
    if (end < 0) {
      this.#checkBegun()
      return undefined
    }
    if (end > HEAD_BYTES_MAX) throw this.#tooLong()
    const bytes = this.#bytes
    this.#forget(end + END_OF_HEAD.length)
    return parseHead(bytes, bytes.toString('latin1', 0, end))
  }

  /** RFC 9112, section 2.2: a line end too much, as old clients send it behind a body. */
  #skipEmptyLines(): void {
    let at = 0
    while (this.#bytes[at] === CR && this.#bytes[at + 1] === LF) at += 2
    if (at > 0) this.#forget(at)
  }

  /** So that what can be no head any more is refused at once, and not when its time is over. */
  #checkBegun(): void {
    const { length } = this.#bytes
    if (length > HEAD_BYTES_MAX) throw this.#tooLong()
    if (NEVER_IN_A_HEAD.test(this.#bytes.toString('latin1', this.#searched))) throw malformed()
    const line = this.#bytes.indexOf('\r\n', 0, 'latin1')
    if (line >= this.#searched) parseRequestLine(this.#bytes.toString('latin1', 0, line))
    this.#searched = Math.max(0, length - (END_OF_HEAD.length - 1))
  }

  #tooLong(): Problem {
    const line = this.#bytes.indexOf('\r\n', 0, 'latin1')
    return line < 0 || line > TARGET_BYTES_MAX ? targetTooLong() : headersTooLarge()
  }

  #forget(bytes: number): void {
    this.#bytes = bytes < this.#bytes.length ? this.#bytes.subarray(bytes) : EMPTY
    this.#searched = 0
  }
}

/** `text`: how `bytes` begin, without the empty line at its end. */
function parseHead(bytes: Buffer, text: string): RawHead {
  const end = text.indexOf('\r\n')
  const { method, target, version } = parseRequestLine(end < 0 ? text : text.slice(0, end))
  return { method, target, version, fields: end < 0 ? [] : parseFields(bytes, text, end + 2) }
}

function parseRequestLine(text: string): Omit<RawHead, 'fields'> {
  const [, method, target, version] = REQUEST_LINE.exec(text) ?? []
  if (method === undefined || target === undefined || version === undefined) throw malformed()
  return { method, target, version }
}
