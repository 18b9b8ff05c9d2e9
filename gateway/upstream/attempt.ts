/**
 * One attempt to bring a request to a backend and its answer back. Small answers
 * are gathered, large ones become a stream. An answer that breaks off, or whose end nobody could
 * tell, is a failure.
 */
import { Readable } from 'node:stream'
import { NO_BODY } from '../downstream/body.ts'
import type { Abort, Abortable } from '../pipeline/call.ts'
import type { Backend } from './backends.ts'
import type { AnswerReader, BackendConnection, BackendRequest } from './connection.ts'

/** Answers up to this size are read whole first, so that one that breaks off becomes a 502. */
const GATHERED_BYTES_MAX = 256 * 1024
/** What a stream holds for a client that reads slowly, before it holds the backend's connection. */
const STREAM_BYTES_MAX = 1024 * 1024
/** How long a request may wait for a connection. */
const QUEUE_TIMEOUT_MS = 5_000
/** Requests that wait for one backend, or are under way there; beyond that we are overloaded. */
const IN_FLIGHT_MAX = 1_000
/** A backend that sends more informational answers (1xx) than this is broken. */
const INFORMATIONAL_MAX = 8

export interface UpstreamRequest extends BackendRequest {
  /** Whether the backend does it once even if it is sent twice. */
  readonly idempotent: boolean
}

export interface UpstreamAnswer {
  readonly status: number
  /** Names in lower case and values, in turn. */
  readonly headers: readonly string[]
  /** A stream where it is large; it fails if the answer breaks off. */
  readonly body: Buffer | Readable
}

/** How far an attempt got, which decides whether it may be repeated. */
export type Progress = 'nothing_sent' | 'sent' | 'answer_begun'

export class AttemptFailed extends Error {
  readonly progress: Progress
  /** Nothing is repeated after one. */
  readonly isDeadline: boolean

  constructor(progress: Progress, cause: unknown) {
    super('the backend did not answer', { cause })
    this.progress = progress
    this.isDeadline = cause instanceof DeadlinePassed
  }
}

class DeadlinePassed extends Error {}

export interface AttemptLimits {
  /** Until the head of an answer; from there until it is whole, or between two parts of a stream. */
  readonly timeoutMs: number
  /** Large answers under way at once: slow readers may hold so many connections, not all. */
  readonly streamsMax: number
}

export type Attempt = (
  backend: Backend,
  request: UpstreamRequest,
  abort: Abort,
) => Promise<UpstreamAnswer>

/** Every rejection of an attempt is an `AttemptFailed`. */
export function createAttempt(limits: AttemptLimits): Attempt {
  const streams = new AnswerStreams(limits.streamsMax)
  const { timeoutMs } = limits
  return (backend, request, abort) => {
    return new Promise((resolve, reject) => {
      const isFull = backend.inFlight >= IN_FLIGHT_MAX
      if (isFull) return reject(new AttemptFailed('nothing_sent', new DeadlinePassed('line full')))
      if (abort.reason) return reject(new AttemptFailed('nothing_sent', abort.reason))
      const isRead = request.method === 'GET'
      const exchange = new Exchange({ backend, isRead, timeoutMs, streams, abort, resolve, reject })
      backend.pool.send(request, exchange)
    })
  }
}

/** Large answers under way. */
class AnswerStreams {
  readonly #max: number
  #underWay = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Begins with what was gathered. Undefined where there are too many. */
  create(exchange: Exchange, gathered: readonly Buffer[]): Readable | undefined {
    if (this.#underWay >= this.#max) return undefined
    this.#underWay++
    const stream = new Readable({
      highWaterMark: STREAM_BYTES_MAX,
      read: () => exchange.resume(),
      destroy(error, done) {
        // Also when the client is gone: an answer that nobody reads would keep its connection for ever.
        exchange.abort(error ?? new Error('the client went away'))
        done(error)
      },
    })
    stream.once('close', () => this.#underWay--)
    for (const part of gathered) stream.push(part)
    return stream
  }
}

interface ExchangeOptions {
  readonly backend: Backend
  /** Whether it changes nothing, whatever becomes of it. */
  readonly isRead: boolean
  readonly timeoutMs: number
  readonly streams: AnswerStreams
  readonly abort: Abort
  resolve(answer: UpstreamAnswer): void
  reject(failure: AttemptFailed): void
}

class Exchange implements AnswerReader, Abortable {
  readonly #options: ExchangeOptions
  #progress: Progress = 'nothing_sent'
  #connection: BackendConnection | undefined
  #isSettled = false
  #deadline = performance.now() + QUEUE_TIMEOUT_MS
  #informational = 0
  #status = 0
  #headers: readonly string[] | undefined
  #stream: Readable | undefined
  /** Of the body, while it is gathered. */
  readonly #parts: Buffer[] = []
  #bytes = 0

  constructor(options: ExchangeOptions) {
    this.#options = options
    options.backend.inFlight++
    options.abort.listen(this)
  }

  onSend(connection: BackendConnection): boolean {
    // Given up while it waited in line.
    if (this.#isSettled) return false
    this.#connection = connection
    this.#progress = 'sent'
    this.#restartDeadline()
    return true
  }

  onBegin(): void {
    this.#progress = 'answer_begun'
  }

  onHead(status: number, headers: readonly string[]): void {
    const isInformational = status >= 100 && status < 200 && status !== 101
    if (isInformational && ++this.#informational <= INFORMATIONAL_MAX) return
    if (status < 200 || status > 599) {
      this.abort(new Error(`status ${status}`))
      return
    }
    this.#status = status
    this.#headers = headers
    this.#restartDeadline()
  }

  onData(part: Buffer): void {
    if (this.#stream !== undefined) {
      this.#restartDeadline()
      if (this.#stream.push(part)) return
      // How long a slow client may take is not for us to say.
      this.#deadline = Number.POSITIVE_INFINITY
      this.#connection?.pause()
      return
    }
    this.#parts.push(part)
    this.#bytes += part.length
    if (this.#bytes > GATHERED_BYTES_MAX) this.#beginStream()
  }

  onEnd(): void {
    this.#settle()
    if (this.#stream !== undefined) this.#stream.push(null)
    else this.#resolve(this.#gathered())
  }

  onError(cause: Error): void {
    if (this.#isSettled) return
    this.#settle()
    if (this.#stream !== undefined) this.#stream.destroy(cause)
    else this.#options.reject(new AttemptFailed(this.#progress, cause))
  }

  /**
   * Before a connection takes the request there is nothing to abort but the wait; once the answer is
   * here it may serve another.
   */
  abort(reason: Error): void {
    if (this.#isSettled) return
    if (this.#connection === undefined) this.onError(reason)
    else this.#connection.abort(reason)
  }

  /** More of a large answer is wanted. */
  resume(): void {
    if (this.#isSettled) return
    this.#restartDeadline()
    this.#connection?.resume()
  }

  checkTime(now: number): boolean {
    if (now > this.#deadline) this.abort(new DeadlinePassed(`nothing came, ${this.#progress}`))
    return !this.#isSettled
  }

  #beginStream(): void {
    if (this.#status === 401) {
      // Of a refusal nobody reads the body, and what is not read stays.
      this.abort(new Error('a refusal with a large body'))
      return
    }
    const { streams, isRead } = this.#options
    this.#stream = streams.create(this, this.#parts.splice(0))
    if (this.#stream === undefined) {
      if (isRead) this.#progress = 'nothing_sent'
      this.abort(new DeadlinePassed('too many large answers at once'))
    } else {
      this.#resolve(this.#stream)
    }
  }

  /** Most bodies come in one part. */
  #gathered(): Buffer {
    const [only = NO_BODY] = this.#parts
    return this.#parts.length <= 1 ? only : Buffer.concat(this.#parts, this.#bytes)
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
    this.#options.abort.listen(undefined)
  }
}
