/**
 * Reads responses as strictly as requests are read. Every response has an end of its own: one that ends
 * with its connection would look whole wherever that breaks, and is an error.
 */
import { type BodyDecoder, createBodyDecoder } from './body-decoder.ts'
import { malformed } from './errors.ts'
import { parseFields } from './fields.ts'
import { HeadBuffer } from './head-buffer.ts'
import { RESPONSE_HEAD_BYTES_MAX } from './limits.ts'

const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: [^\r\n]*)?$/
const VERSION = 'HTTP/1.'
const LENGTH = /^\d{1,15}$/

/** Receives the parts of responses. A receiver may call `ResponseReader.stop` at any time. */
export interface ResponseReceiver {
  /** Also called for informational responses (1xx). `fields`: names in lower case and values alternate. */
  onHead(status: number, fields: readonly string[]): void
  /** `part` is the receiver's only until it returns. */
  onData(part: Buffer): void
  /** `isReusable`: another request may follow on the connection. */
  onEnd(isReusable: boolean): void
}

export class ResponseReader {
  readonly #receiver: ResponseReceiver
  readonly #buffer = new HeadBuffer()
  #method: string | undefined
  #decoder: BodyDecoder | undefined
  #isReusable = true
  /** How long the server says that it keeps an idle connection open. */
  keepAliveMs = Number.POSITIVE_INFINITY

  constructor(receiver: ResponseReceiver) {
    this.#receiver = receiver
  }

  /** Expects the response to a request of this method. */
  expect(method: string): void {
    this.#method = method
  }

  /** Ignores what is left of the response. */
  stop(): void {
    this.#method = undefined
  }

  /** `bytes` are the caller's again afterwards. Throws `Http1Error`. */
  read(bytes: Buffer): void {
    let rest: Buffer | undefined = bytes
    while (rest !== undefined && this.#method !== undefined) {
      rest =
        this.#decoder === undefined
          ? this.#readHead(rest, this.#method)
          : this.#readBody(rest, this.#decoder)
    }
  }

  /** Returns the bytes behind the head; undefined while it is not whole. */
  #readHead(bytes: Buffer, method: string): Buffer | undefined {
    const buffer = this.#buffer
    buffer.push(bytes)
    const head = buffer.takeHead(RESPONSE_HEAD_BYTES_MAX)
    if (head === undefined) {
      this.#checkIncomplete()
      buffer.markSearched()
      buffer.own()
      return undefined
    }
    const line = head.text.indexOf('\r\n')
    const [, minor, digits] =
      STATUS_LINE.exec(line < 0 ? head.text : head.text.slice(0, line)) ?? []
    if (digits === undefined) throw malformed('The response has no status line.')
    const status = Number(digits)
    const fields = line < 0 ? [] : parseFields(head.bytes, head.text, line + 2)
    const isInformational = status >= 100 && status < 200
    if (!isInformational) {
      this.#decoder = createDecoder(method, status, fields)
      this.#isReusable = minor === '1' && this.#readConnection(fields)
    }
    this.#receiver.onHead(status, fields)
    const rest = buffer.takeAll()
    // A body of no bytes ends here.
    return isInformational && rest.length === 0 ? undefined : rest
  }

  /** Rejects what can be no head before the deadline passes. */
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
    // Bytes behind a response answer no request.
    this.#receiver.onEnd(this.#isReusable && rest.length === 0)
  }

  /** Whether the server keeps the connection open. */
  #readConnection(fields: readonly string[]): boolean {
    for (let at = 0; at < fields.length; at += 2) {
      const value = fields[at + 1] ?? ''
      if (fields[at] === 'connection' && /\bclose\b/i.test(value)) return false
      if (fields[at] !== 'keep-alive') continue
      const seconds = /\btimeout=(\d{1,6})\b/i.exec(value)?.[1]
      if (seconds !== undefined) this.keepAliveMs = Number(seconds) * 1000
    }
    return true
  }
}

function createDecoder(method: string, status: number, fields: readonly string[]): BodyDecoder {
  let length: string | undefined
  let coding: string | undefined
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at]
    if (name !== 'content-length' && name !== 'transfer-encoding') continue
    if (length !== undefined || coding !== undefined) {
      throw malformed('The response has two lengths.')
    }
    if (name === 'content-length') length = fields[at + 1]
    else coding = fields[at + 1]
  }
  if (length !== undefined && !LENGTH.test(length)) {
    throw malformed('The Content-Length of the response is not a number.')
  }
  if (coding !== undefined && coding !== 'chunked') {
    throw malformed('The Transfer-Encoding of the response is not chunked.')
  }
  const hasNoBody = method === 'HEAD' || status === 204 || status === 304
  if (hasNoBody) return createBodyDecoder({ kind: 'length', bytes: 0 })
  if (coding !== undefined) return createBodyDecoder({ kind: 'chunked' })
  if (length === undefined) throw malformed('The response ends with its connection.')
  return createBodyDecoder({ kind: 'length', bytes: Number(length) })
}
