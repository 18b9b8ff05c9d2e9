/**
 * One attempt to bring a request to a backend and its answer back. Small answers
 * are gathered, large ones become a stream. An answer that breaks off, or whose end nobody could
 * tell, is a failure.
 */
import { Readable } from 'node:stream'
import type { AnswerReader, BackendConnection, BackendRequest } from './backend-connection.ts'
import type { Abort } from './call.ts'
import type { Backend } from './upstream.ts'

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
export function createAttempt({ timeoutMs, streamsMax }: AttemptLimits): Attempt {
  let streams = 0

  function createStream(connection: BackendConnection, gathered: readonly Buffer[]) {
    if (streams >= streamsMax) return undefined
    streams++
    const stream = createAnswerStream(connection, gathered)
    stream.once('close', () => streams--)
    return stream
  }

  return (backend, request, abort) => {
    return new Promise((resolve, reject) => {
      const isFull = backend.inFlight >= IN_FLIGHT_MAX
      if (isFull) return reject(new AttemptFailed('nothing_sent', new DeadlinePassed('line full')))
      if (abort.reason) return reject(new AttemptFailed('nothing_sent', abort.reason))
      backend.inFlight++
      const exchange = new Exchange({
        timeoutMs,
        createStream,
        resolve,
        reject,
        onSettled() {
          backend.inFlight--
          abort.listen(undefined)
        },
      })
      abort.listen((reason) => exchange.abort(reason))
      backend.pool.send(request, exchange)
    })
  }
}

interface ExchangeOptions {
  readonly timeoutMs: number
  /** Undefined where there are too many. */
  createStream(connection: BackendConnection, gathered: readonly Buffer[]): Readable | undefined
  resolve(answer: UpstreamAnswer): void
  reject(failure: AttemptFailed): void
  onSettled(): void
}

class Exchange implements AnswerReader {
  readonly #options: ExchangeOptions
  #progress: Progress = 'nothing_sent'
  #connection: BackendConnection | undefined
  #isSettled = false
  #deadline = performance.now() + QUEUE_TIMEOUT_MS
  #informational = 0
  #head: Omit<UpstreamAnswer, 'body'> | undefined
  #stream: Readable | undefined
  #gathered: Buffer[] = []
  #bytes = 0

  constructor(options: ExchangeOptions) {
    this.#options = options
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
    this.#head = { status, headers }
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
    this.#gathered.push(part)
    this.#bytes += part.length
    if (this.#bytes > GATHERED_BYTES_MAX) this.#beginStream()
  }

  onEnd(): void {
    this.#settle()
    if (this.#stream !== undefined) this.#stream.push(null)
    else if (this.#head !== undefined) {
      const [only, ...others] = this.#gathered
      const isWhole = only !== undefined && others.length === 0
      const body = isWhole ? only : Buffer.concat(this.#gathered, this.#bytes)
      this.#options.resolve({ ...this.#head, body })
    }
  }

  onError(cause: Error): void {
    if (this.#isSettled) return
    this.#settle()
    if (this.#stream !== undefined) this.#stream.destroy(cause)
    else this.#options.reject(new AttemptFailed(this.#progress, cause))
  }

  /** Before a connection takes the request there is nothing to abort but the wait. */
  abort(reason: Error): void {
    if (this.#connection === undefined) this.onError(reason)
    else this.#connection.abort(reason)
  }

  checkTime(now: number): void {
    if (now > this.#deadline) this.abort(new DeadlinePassed(`nothing came, ${this.#progress}`))
  }

  #beginStream(): void {
    const head = this.#head
    const connection = this.#connection
    if (head === undefined || connection === undefined) return
    this.#stream = this.#options.createStream(connection, this.#gathered)
    this.#gathered = []
    if (this.#stream === undefined) {
      // Only reads have large answers: nothing was done.
      this.#progress = 'nothing_sent'
      this.abort(new DeadlinePassed('too many large answers at once'))
    } else {
      this.#options.resolve({ ...head, body: this.#stream })
    }
  }

  #restartDeadline(): void {
    this.#deadline = performance.now() + this.#options.timeoutMs
  }

  #settle(): void {
    this.#isSettled = true
    this.#options.onSettled()
  }
}

function createAnswerStream(connection: BackendConnection, gathered: readonly Buffer[]): Readable {
  const stream = new Readable({
    highWaterMark: STREAM_BYTES_MAX,
    read: () => connection.resume(),
    destroy(error, done) {
      // Also when the client is gone: an answer that nobody reads would keep its connection for ever.
      if (!stream.readableEnded) connection.abort(error ?? new Error('the client went away'))
      done(error)
    },
  })
  for (const part of gathered) stream.push(part)
  return stream
}
