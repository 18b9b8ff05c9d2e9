/**
 * One attempt to send a request to a backend and to receive its response. A small response is buffered, and a large one
 * is streamed.
 */
import { Readable } from 'node:stream'
import { copyBuffer } from '../../shared/process/buffers.ts'
import type { Abort, Abortable } from '../call/abort.ts'
import type { Backend } from './backends.ts'
import { BufferedBody, joinParts } from './buffered-body.ts'
import type { BackendConnection, BackendRequest, ResponseHandler } from './connection.ts'

/** Responses to GET up to this size are buffered completely, so that an incomplete response can become a 502. */
const BUFFERED_BYTES_MAX = 256 * 1024
/**
 * Responses to writes up to this size are buffered, so that the client learns the outcome of its write even while slow
 * clients occupy all streams. No backend sends a larger one: responses to writes are at most a little larger than the
 * largest body of a request.
 */
const WRITE_BUFFERED_BYTES_MAX = 1024 * 1024
/** How many bytes a stream buffers for a slow client before it pauses the backend's connection (backpressure). */
const STREAM_BYTES_MAX = 1024 * 1024
/** A backend that sends more informational responses (1xx) than this is faulty. */
const INFORMATIONAL_MAX = 8

export interface UpstreamRequest extends BackendRequest {
  /** The account of the key. All keys of an account together may use only a part of the streams. */
  readonly accountId: string
  /** Whether the request takes effect once even if the backend receives it twice. */
  readonly idempotent: boolean
}

export interface UpstreamResponse {
  readonly status: number
  /** Names in lower case and values alternate. */
  readonly headers: readonly string[]
  /** A stream if the body is large. The stream fails if the response ends early. */
  readonly body: Buffer | Readable
}

/** How far an attempt got, which decides whether it may be retried and which error the client gets. */
export type Progress = 'nothing_sent' | 'sent' | 'response_begun'

export class AttemptFailed extends Error {
  readonly progress: Progress
  /** The limit because of which the gateway ended the attempt, if any. If there is one, the attempt is not retried. */
  readonly exceededLimit: Limit | undefined
  /** The error code of the cause, such as that of `MovedToOtherBackend` (see `failover.ts`). */
  readonly code: unknown

  constructor(progress: Progress, cause: unknown) {
    super('the attempt at the backend failed', { cause })
    this.code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    this.progress = progress
    this.exceededLimit = cause instanceof LimitExceeded ? cause.limit : undefined
  }
}

/**
 * `streams`: too many responses were being streamed, in total or to the account, so the gateway dropped the response
 * that had begun.
 */
type Limit = 'deadline' | 'streams'

class LimitExceeded extends Error {
  readonly limit: Limit

  constructor(limit: Limit, message: string) {
    super(message)
    this.limit = limit
  }
}

export interface AttemptLimits {
  /**
   * The maximum time from sending the request to the head of the response. It also limits the time from the head to the
   * end or, if the response is streamed, between two of its parts.
   */
  readonly timeoutMs: number
  /**
   * The maximum number of responses that are streamed at the same time: slow clients can occupy only this many
   * connections. One account may use about half of the streams that other accounts leave free.
   */
  readonly streamsMax: number
}

/** `waitUntil` is the time (`performance.now()`) by which a connection must be available. */
export type Attempt = (
  backend: Backend,
  request: UpstreamRequest,
  abort: Abort,
  waitUntil: number,
) => Promise<UpstreamResponse>

/** Every rejection of an attempt is an `AttemptFailed`. */
export function createAttempt(limits: AttemptLimits): Attempt {
  const streams = new ResponseStreams(limits.streamsMax)
  const { timeoutMs } = limits
  return (backend, request, abort, waitUntil) => {
    return new Promise((resolve, reject) => {
      if (abort.reason) return reject(new AttemptFailed('nothing_sent', abort.reason))
      const { accountId } = request
      const isGet = request.method === 'GET'
      const exchange = new Exchange({
        ...{ backend, accountId, isGet, timeoutMs, waitUntil, streams, abort, resolve, reject },
      })
      backend.pools.calls.send(request, exchange)
    })
  }
}

/**
 * An account gets another stream only while it uses fewer streams than are free. An account that receives its responses
 * slowly therefore leaves streams to others: alone, it gets about half of all streams.
 */
class ResponseStreams {
  #free: number
  /** An account that uses no stream has no entry. */
  readonly #usedBy = new Map<string, number>()

  constructor(max: number) {
    this.#free = max
  }

  /** Creates a stream that begins with the buffered parts; returns undefined if the account may use no further one. */
  create(exchange: Exchange, accountId: string, buffered: readonly Buffer[]): Readable | undefined {
    const used = this.#usedBy.get(accountId) ?? 0
    if (used >= this.#free) return undefined
    this.#free--
    this.#usedBy.set(accountId, used + 1)
    const stream = new Readable({
      highWaterMark: STREAM_BYTES_MAX,
      read: () => exchange.resume(),
      destroy(error, done) {
        // Without this, a response whose client has disconnected would occupy its connection forever.
        exchange.abort(error ?? new Error('the client closed its connection'))
        done(error)
      },
    })
    stream.once('close', () => this.#release(accountId))
    // The response may break off before anything reads the stream. Without a listener, the error would end the process.
    // A later reader gets the error nevertheless.
    stream.on('error', () => {})
    for (const part of buffered) stream.push(part)
    return stream
  }

  #release(accountId: string): void {
    const used = (this.#usedBy.get(accountId) ?? 0) - 1
    this.#free++
    if (used > 0) this.#usedBy.set(accountId, used)
    else this.#usedBy.delete(accountId)
  }
}

interface ExchangeOptions {
  readonly backend: Backend
  readonly accountId: string
  /** A GET has no effect, and its response may be large. */
  readonly isGet: boolean
  readonly timeoutMs: number
  readonly waitUntil: number
  readonly streams: ResponseStreams
  readonly abort: Abort
  resolve(response: UpstreamResponse): void
  reject(failure: AttemptFailed): void
}

class Exchange implements ResponseHandler, Abortable {
  readonly #options: ExchangeOptions
  #progress: Progress = 'nothing_sent'
  #connection: BackendConnection | undefined
  #isSettled = false
  #deadline: number
  #informational = 0
  #status = 0
  #headers: readonly string[] | undefined
  #stream: Readable | undefined
  #body = new BufferedBody()

  constructor(options: ExchangeOptions) {
    this.#options = options
    this.#deadline = options.waitUntil
    options.backend.inFlight++
    options.abort.listen(this)
  }

  onSend(connection: BackendConnection): boolean {
    if (this.#isSettled) return false
    this.#connection = connection
    this.#progress = 'sent'
    this.#restartDeadline()
    return true
  }

  onBegin(): void {
    this.#progress = 'response_begun'
  }

  onHead(status: number, headers: readonly string[], length: number | undefined): void {
    // A 101 is unexpected, because the gateway never asks a backend to switch protocols.
    const isInformational = status >= 100 && status < 200 && status !== 101
    if (isInformational && ++this.#informational <= INFORMATIONAL_MAX) return
    if (status < 200 || status > 599) {
      this.abort(new Error(`unexpected status ${status}`))
      return
    }
    this.#status = status
    this.#headers = headers
    if (length !== undefined && length <= this.#bufferedBytesMax)
      this.#body = new BufferedBody(length)
    this.#restartDeadline()
  }

  onData(part: Buffer): void {
    if (this.#stream !== undefined) {
      this.#restartDeadline()
      if (this.#stream.push(copyBuffer(part))) return
      // The deadline of the client's connection applies instead.
      this.#deadline = Number.POSITIVE_INFINITY
      this.#connection?.pause()
      return
    }
    this.#body.append(part)
    if (this.#body.bytes > this.#bufferedBytesMax) this.#beginStream()
  }

  onEnd(): void {
    this.#settle()
    if (this.#stream !== undefined) this.#stream.push(null)
    else this.#resolve(joinParts(this.#body.take()))
  }

  onError(cause: Error): void {
    if (this.#isSettled) return
    this.#settle()
    if (this.#stream !== undefined) this.#stream.destroy(cause)
    else this.#options.reject(new AttemptFailed(this.#progress, cause))
  }

  /** Has no effect after the response has ended, because the connection may then carry another request. */
  abort(reason: Error): void {
    if (this.#isSettled) return
    if (this.#connection === undefined) this.onError(reason)
    else this.#connection.abort(reason)
  }

  resume(): void {
    if (this.#isSettled) return
    this.#restartDeadline()
    this.#connection?.resume()
  }

  abortIfLate(now: number): boolean {
    if (now > this.#deadline) this.abort(new LimitExceeded('deadline', 'the deadline passed'))
    return !this.#isSettled
  }

  get #bufferedBytesMax(): number {
    return this.#options.isGet ? BUFFERED_BYTES_MAX : WRITE_BUFFERED_BYTES_MAX
  }

  #beginStream(): void {
    if (this.#status === 401) {
      // The pipeline does not read the body of a 401, so a stream would stay open.
      this.abort(new Error('a 401 with a large body'))
      return
    }
    const { streams, accountId, isGet } = this.#options
    this.#stream = streams.create(this, accountId, this.#body.take())
    if (this.#stream === undefined) {
      // Neither a GET nor a write that the backend has rejected has an effect. With `nothing_sent`, the client gets the
      // error that says that nothing was done.
      const isRejected = this.#status >= 400 && this.#status < 500
      if (isGet || isRejected) this.#progress = 'nothing_sent'
      this.abort(new LimitExceeded('streams', 'too many streamed responses at the same time'))
    } else {
      this.#resolve(this.#stream)
    }
  }

  #resolve(body: Buffer | Readable): void {
    if (this.#headers === undefined) return
    this.#options.resolve({ status: this.#status, headers: this.#headers, body })
  }

  #restartDeadline(): void {
    this.#deadline = performance.now() + this.#options.timeoutMs
  }

  #settle(): void {
    this.#isSettled = true
    this.#options.backend.inFlight--
    this.#options.abort.stopListening()
  }
}
