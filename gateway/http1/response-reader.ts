/**
 * Reads responses strictly. A response that declares neither a length nor chunks, and therefore ends when the
 * connection is closed, is rejected: it would look complete even if the connection broke.
 */
import { type BodyDecoder, type BodyFraming, createBodyDecoder } from './body-decoder.ts'
import { malformed } from './errors.ts'
import { parseFields } from './fields.ts'
import { HeadBuffer } from './head-buffer.ts'
import { RESPONSE_HEAD_BYTES_MAX } from './limits.ts'

const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: [^\r\n]*)?$/
const VERSION = 'HTTP/1.'
/** A length of up to 15 digits, which a number represents exactly. */
const LENGTH = /^\d{1,15}$/

/** Receives the parts of responses. A receiver may call `ResponseReader.stop` at any time. */
export interface ResponseReceiver {
  /**
   * Called for every head, including informational responses (1xx). In `fields`, names in lower case and values
   * alternate. `length` is the length of the body in bytes; undefined if it is not known yet, or if the response is
   * informational.
   */
  onHead(status: number, fields: readonly string[], length: number | undefined): void
  /** The receiver may use `part` only until this method returns. */
  onData(part: Buffer): void
  /** `isReusable` says whether another request may be sent over the connection. */
  onEnd(isReusable: boolean): void
}

export class ResponseReader {
  readonly #receiver: ResponseReceiver
  readonly #buffer = new HeadBuffer()
  /** The method of the request whose response is being read; undefined if no response is expected. */
  #method: string | undefined
  /** Undefined until the head of the response has been read. */
  #decoder: BodyDecoder | undefined
  #isReusable = true
  /**
   * How long the server keeps an idle connection open, according to its latest `Keep-Alive` header; infinite if there
   * was none.
   */
  keepAliveMs = Number.POSITIVE_INFINITY

  constructor(receiver: ResponseReceiver) {
    this.#receiver = receiver
  }

  /** Must be called before the response to a request with this method is read. */
  expect(method: string): void {
    this.#method = method
  }

  /** Ignores the rest of the response. This reader cannot read another response afterwards. */
  stop(): void {
    this.#method = undefined
  }

  /** Parses `bytes`, whose memory the caller may reuse afterwards. Throws `Http1Error`. */
  read(bytes: Buffer): void {
    let rest: Buffer | undefined = bytes
    while (rest !== undefined && this.#method !== undefined) {
      rest =
        this.#decoder === undefined
          ? this.#readHead(rest, this.#method)
          : this.#readBody(rest, this.#decoder)
    }
  }

  /** Returns the bytes after the head; undefined if the head is incomplete, or informational with no byte after it. */
  #readHead(bytes: Buffer, method: string): Buffer | undefined {
    const buffer = this.#buffer
    buffer.push(bytes)
    const head = buffer.takeHead(RESPONSE_HEAD_BYTES_MAX)
    if (head === undefined) {
      this.#checkIncomplete()
      buffer.markSearched()
      buffer.detach()
      return undefined
    }
    const lineEnd = head.text.indexOf('\r\n')
    const [, minor, digits] =
      STATUS_LINE.exec(lineEnd < 0 ? head.text : head.text.slice(0, lineEnd)) ?? []
    if (digits === undefined) throw malformed('The response has no status line.')
    const status = Number(digits)
    const fields = lineEnd < 0 ? [] : parseFields(head.bytes, head.text, lineEnd + 2)
    const isInformational = status >= 100 && status < 200
    let length: number | undefined
    if (!isInformational) {
      const framing = readFraming(method, status, fields)
      if (framing.kind === 'length') length = framing.bytes
      this.#decoder = createBodyDecoder(framing)
      this.#isReusable = minor === '1' && this.#readConnection(fields)
    }
    this.#receiver.onHead(status, fields, length)
    const rest = buffer.takeAll()
    // Even empty bytes are returned, so that `#readBody` ends a response without a body.
    return isInformational && rest.length === 0 ? undefined : rest
  }

  /** Rejects a head that is too long, or not of HTTP/1. Without this, the call would wait for the deadline. */
  #checkIncomplete(): void {
    const { bytes } = this.#buffer
    if (bytes.length > RESPONSE_HEAD_BYTES_MAX) throw malformed('The response head is too long.')
    const start = bytes.toString('latin1', 0, VERSION.length)
    if (!VERSION.startsWith(start)) throw malformed('The response has no status line.')
  }

  #readBody(bytes: Buffer, decoder: BodyDecoder): undefined {
    const rest = decoder.decode(bytes, (part) => {
      if (this.#method !== undefined) this.#receiver.onData(part)
    })
    if (rest === undefined || this.#method === undefined) return
    this.#decoder = undefined
    this.#method = undefined
    // Bytes after the response belong to no request, so the connection cannot be used again.
    this.#receiver.onEnd(this.#isReusable && rest.length === 0)
  }

  /** Returns whether the server keeps the connection open after the response. Also stores `keepAliveMs`. */
  #readConnection(fields: readonly string[]): boolean {
    for (let index = 0; index < fields.length; index += 2) {
      const value = fields[index + 1] ?? ''
      if (fields[index] === 'connection' && /\bclose\b/i.test(value)) return false
      if (fields[index] !== 'keep-alive') continue
      const seconds = /\btimeout=(\d{1,6})\b/i.exec(value)?.[1]
      if (seconds !== undefined) this.keepAliveMs = Number(seconds) * 1000
    }
    return true
  }
}

function readFraming(method: string, status: number, fields: readonly string[]): BodyFraming {
  let length: string | undefined
  let coding: string | undefined
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index]
    if (name !== 'content-length' && name !== 'transfer-encoding') continue
    if (length !== undefined || coding !== undefined) {
      throw malformed('The response has two lengths.')
    }
    if (name === 'content-length') length = fields[index + 1]
    else coding = fields[index + 1]
  }
  if (length !== undefined && !LENGTH.test(length)) {
    throw malformed('The Content-Length of the response is not a number of at most 15 digits.')
  }
  if (coding !== undefined && coding !== 'chunked') {
    throw malformed('The Transfer-Encoding of the response is not chunked.')
  }
  const hasNoBody = method === 'HEAD' || status === 204 || status === 304
  if (hasNoBody) return { kind: 'length', bytes: 0 }
  if (coding !== undefined) return { kind: 'chunked' }
  if (length === undefined) throw malformed('The response has no length.')
  return { kind: 'length', bytes: Number(length) }
}
