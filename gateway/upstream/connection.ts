/**
 * A connection to a backend: one request after another, and the answer to each, read as strictly as
 * requests are. What an answer's end leaves in doubt ends the connection.
 */
import type { Socket } from 'node:net'
import { parseFields } from '../http1/fields.ts'
import { ChunkedFraming, LengthFraming } from '../http1/framing.ts'
import { writeMessage } from '../http1/write-message.ts'

const HEAD_BYTES_MAX = 32 * 1024
const END_OF_HEAD = '\r\n\r\n'
const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: [^\r\n]*)?$/
const VERSION = 'HTTP/1.'
const LENGTH = /^\d{1,15}$/
const EMPTY: Buffer = Buffer.alloc(0)

export interface BackendRequest {
  readonly method: string
  /** Path and query. */
  readonly target: string
  /** Names in lower case and values, in turn; without those of the connection and the body. */
  readonly headers: readonly string[]
  readonly body: Buffer
}

/** Is told of an answer as it comes. Exactly one of `onEnd` and `onError` is the last. */
export interface AnswerReader {
  /** A connection takes the request, unless it is no longer wanted: false. */
  onSend(connection: BackendConnection): boolean
  /** The first byte is here. */
  onBegin(): void
  /** Also told of informational answers. `fields`: names in lower case and values, in turn. */
  onHead(status: number, fields: readonly string[]): void
  onData(part: Buffer): void
  onEnd(): void
  onError(error: Error): void
  /** Looks now and then whether it has waited for too long, by `performance.now()`; whether it goes on. */
  checkTime(now: number): boolean
}

/** The backend closed before the answer was whole, or spoke something else than HTTP. */
class AnswerLost extends Error {}

interface Framing {
  take(bytes: Buffer, onPart: (part: Buffer) => void): Buffer | undefined
}

export interface BackendConnectionOptions {
  readonly socket: Socket
  /** For `Host`. */
  readonly host: string
  /** It can take another request. */
  onFree(connection: BackendConnection): void
  onClose(connection: BackendConnection): void
}

export class BackendConnection {
  readonly #socket: Socket
  readonly #options: BackendConnectionOptions
  #reader: AnswerReader | undefined
  #method = ''
  /** Of a head, until its end is here. */
  #begun = EMPTY
  #hasBegun = false
  #framing: Framing | undefined
  #isReusable = true
  /** How long the backend says it keeps an idle connection. */
  keepAliveMs = Number.POSITIVE_INFINITY

  constructor(options: BackendConnectionOptions) {
    const { socket } = options
    this.#options = options
    this.#socket = socket
    socket.on('end', () => this.abort(new AnswerLost('the backend closed its connection')))
    socket.on('error', (error) => this.abort(error))
    socket.on('close', () => {
      this.abort(new AnswerLost('the connection is closed'))
      options.onClose(this)
    })
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  send({ method, target, headers, body }: BackendRequest, reader: AnswerReader): void {
    this.#reader = reader
    this.#method = method
    this.#hasBegun = false
    const hasBody = body.length > 0 || (method !== 'GET' && method !== 'HEAD')
    let text = `${method} ${target} HTTP/1.1\r\nhost: ${this.#options.host}\r\n`
    for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
    text += hasBody ? `content-length: ${body.length}\r\n\r\n` : '\r\n'
    writeMessage(this.#socket, text, body)
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  checkTime(now: number): void {
    this.#reader?.checkTime(now)
  }

  /** Closes; whoever waits for an answer is told why. */
  abort(reason: Error): void {
    const reader = this.#reader
    this.#reader = undefined
    this.#socket.destroy()
    reader?.onError(reason)
  }

  /** Bytes that came: the caller's again afterwards. */
  read(bytes: Buffer): void {
    // Nobody asked for them: what they are taken for might be the next answer.
    if (this.#reader === undefined) return void this.#socket.destroy()
    if (!this.#hasBegun) {
      this.#hasBegun = true
      this.#reader.onBegin()
    }
    try {
      let rest: Buffer | undefined = bytes
      while (rest !== undefined && this.#reader !== undefined) {
        rest = this.#framing === undefined ? this.#readHead(rest) : this.#readBody(rest)
      }
    } catch (error) {
      this.abort(new AnswerLost('the answer is malformed', { cause: error }))
    }
  }

  /** Gives what stands behind it; undefined while it is not whole. */
  #readHead(bytes: Buffer): Buffer | undefined {
    const all = this.#begun.length === 0 ? bytes : Buffer.concat([this.#begun, bytes])
    const end = all.indexOf(END_OF_HEAD, 0, 'latin1')
    if (end < 0 || end > HEAD_BYTES_MAX) {
      if (all.length > HEAD_BYTES_MAX) throw new Error('the head of the answer is too long')
      // What can be none is known before the deadline.
      const start = all.toString('latin1', 0, VERSION.length)
      if (!VERSION.startsWith(start)) throw new Error('the answer has no status line')
      this.#begun = Buffer.from(all)
      return undefined
    }
    this.#begun = EMPTY
    const text = all.toString('latin1', 0, end)
    const line = text.indexOf('\r\n')
    const [, minor, digits] = STATUS_LINE.exec(line < 0 ? text : text.slice(0, line)) ?? []
    if (digits === undefined) throw new Error('the answer has no status line')
    const status = Number(digits)
    const fields = line < 0 ? [] : parseFields(all, text, line + 2)
    const isInformational = status >= 100 && status < 200
    if (!isInformational) {
      this.#framing = this.#framingOf(status, fields)
      this.#isReusable = minor === '1' && this.#readConnection(fields)
    }
    this.#reader?.onHead(status, fields)
    const rest = all.subarray(end + END_OF_HEAD.length)
    // A body of no bytes ends here.
    return isInformational && rest.length === 0 ? undefined : rest
  }

  #readBody(bytes: Buffer): Buffer | undefined {
    const rest = this.#framing?.take(bytes, (part) => this.#reader?.onData(Buffer.from(part)))
    if (rest === undefined) return undefined
    this.#finish(rest.length === 0)
    return undefined
  }

  #finish(isClean: boolean): void {
    const reader = this.#reader
    this.#reader = undefined
    this.#framing = undefined
    // A request that is not written to its end was answered before it was read.
    if (isClean && this.#isReusable && this.#socket.writableLength === 0) {
      if (this.#socket.isPaused()) this.#socket.resume()
      this.#options.onFree(this)
    } else {
      this.#socket.destroy()
    }
    reader?.onEnd()
  }

  #framingOf(status: number, fields: readonly string[]): Framing {
    let length: string | undefined
    let coding: string | undefined
    for (let at = 0; at < fields.length; at += 2) {
      const name = fields[at]
      if (name !== 'content-length' && name !== 'transfer-encoding') continue
      if (length !== undefined || coding !== undefined) throw new Error('two lengths')
      if (name === 'content-length') length = fields[at + 1]
      else coding = fields[at + 1]
    }
    if (length !== undefined && !LENGTH.test(length)) throw new Error('the length is no number')
    if (coding !== undefined && coding !== 'chunked') throw new Error('the coding is not chunked')
    if (this.#method === 'HEAD' || status === 204 || status === 304) return new LengthFraming(0)
    if (coding !== undefined) return new ChunkedFraming()
    // One that ends with its connection looks whole wherever that breaks.
    if (length === undefined) throw new Error('the answer ends with its connection')
    return new LengthFraming(Number(length))
  }

  /** Whether it may be used again. */
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
