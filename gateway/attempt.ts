/**
 * One attempt to bring a request to a backend and its answer back: as undici drives it. Small answers
 * are gathered, large ones become a stream. An answer that breaks off, or whose end nobody could
 * tell, is a failure.
 */
import { Readable } from 'node:stream'
import type { Abort } from './call.ts'
import type { Backend, DispatchController, DispatchHandler } from './upstream.ts'

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

export interface UpstreamRequest {
  readonly method: string
  /** Canonical path and query. */
  readonly target: string
  readonly headers: Record<string, string>
  readonly body: Buffer
  /** Whether the backend does it once even if it is sent twice. */
  readonly idempotent: boolean
}

export interface UpstreamAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
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
    this.isDeadline = cause instanceof DeadlinePassed || isTimeoutOfUndici(cause)
  }
}

class DeadlinePassed extends Error {}

function isTimeoutOfUndici(cause: unknown): boolean {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  return code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT'
}

export interface AttemptLimits {
  /** Until an answer that is gathered is whole, from its head on. */
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

  function createStream(controller: DispatchController, gathered: readonly Buffer[]) {
    if (streams >= streamsMax) return undefined
    streams++
    const stream = createAnswerStream(controller, gathered)
    stream.once('close', () => streams--)
    return stream
  }

  return (backend, request, abort) => {
    return new Promise((resolve, reject) => {
      const { method, target: path, headers, body } = request
      const isFull = backend.inFlight >= IN_FLIGHT_MAX
      if (isFull) return reject(new AttemptFailed('nothing_sent', new DeadlinePassed('line full')))
      if (abort.reason) return reject(new AttemptFailed('nothing_sent', abort.reason))
      const exchange = new Exchange({
        backend,
        method,
        timeoutMs,
        abort,
        createStream,
        resolve,
        reject,
      })
      try {
        backend.pool.dispatch(
          { method, path, headers, body: body.length > 0 ? body : null },
          exchange,
        )
      } catch (error) {
        exchange.onResponseError(undefined, error)
      }
    })
  }
}

interface ExchangeOptions {
  readonly backend: Backend
  readonly method: string
  readonly timeoutMs: number
  readonly abort: Abort
  /** Undefined where there are too many. */
  createStream(controller: DispatchController, gathered: readonly Buffer[]): Readable | undefined
  resolve(answer: UpstreamAnswer): void
  reject(failure: AttemptFailed): void
}

class Exchange implements DispatchHandler {
  readonly #options: ExchangeOptions
  #progress: Progress = 'nothing_sent'
  #controller: DispatchController | undefined
  #isSettled = false
  #deadline: NodeJS.Timeout
  #informational = 0
  #head: Omit<UpstreamAnswer, 'body'> | undefined
  #stream: Readable | undefined
  readonly #gathered: Buffer[] = []
  #bytes = 0

  constructor(options: ExchangeOptions) {
    this.#options = options
    options.backend.inFlight++
    options.abort.listen((reason) => this.#abort(reason))
    this.#deadline = this.#startDeadline(QUEUE_TIMEOUT_MS, 'no connection became free')
  }

  onRequestStart(controller: DispatchController) {
    // Given up while it waited in line.
    if (this.#isSettled) return controller.abort(new Error('no longer wanted'))
    clearTimeout(this.#deadline)
    this.#controller = controller
    this.#progress = 'sent'
  }

  onResponseStarted(): void {
    this.#progress = 'answer_begun'
  }

  onResponseStart(
    controller: DispatchController,
    status: number,
    headers: UpstreamAnswer['headers'],
  ) {
    const isInformational = status >= 100 && status < 200 && status !== 101
    if (isInformational && ++this.#informational <= INFORMATIONAL_MAX) return
    if (status < 200 || status > 599) return controller.abort(new Error(`status ${status}`))
    if (!isDelimited(this.#options.method, status, headers)) {
      return controller.abort(new Error('an answer that ends with its connection'))
    }
    this.#head = { status, headers }
    this.#deadline = this.#startDeadline(this.#options.timeoutMs, 'the answer did not end')
  }

  onResponseData(controller: DispatchController, chunk: Buffer) {
    if (this.#stream !== undefined) {
      if (!this.#stream.push(chunk)) controller.pause()
      return
    }
    this.#gathered.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes <= GATHERED_BYTES_MAX || this.#head === undefined) return
    clearTimeout(this.#deadline)
    this.#stream = this.#options.createStream(controller, this.#gathered)
    if (this.#stream === undefined) {
      // Only reads have large answers: nothing was done.
      this.#progress = 'nothing_sent'
      return controller.abort(new DeadlinePassed('too many large answers at once'))
    }
    this.#options.resolve({ ...this.#head, body: this.#stream })
  }

  onResponseEnd(): void {
    this.#settle()
    if (this.#stream !== undefined) this.#stream.push(null)
    else if (this.#head !== undefined) {
      const body = Buffer.concat(this.#gathered, this.#bytes)
      this.#options.resolve({ ...this.#head, body })
    }
  }

  onResponseError(_: unknown, error: unknown): void {
    this.#settle()
    const cause = error instanceof Error ? error : new Error(String(error))
    if (this.#stream !== undefined) this.#stream.destroy(cause)
    else this.#options.reject(new AttemptFailed(this.#progress, cause))
  }

  #startDeadline(ms: number, what: string): NodeJS.Timeout {
    return setTimeout(() => this.#abort(new DeadlinePassed(what)), ms)
  }

  /** Before a connection takes the request there is nothing to abort but the wait. */
  #abort(reason: Error): void {
    if (this.#controller === undefined) this.onResponseError(undefined, reason)
    else this.#controller.abort(reason)
  }

  #settle(): void {
    if (this.#isSettled) return
    this.#isSettled = true
    this.#options.backend.inFlight--
    clearTimeout(this.#deadline)
    this.#options.abort.listen(undefined)
  }
}

/** One that ends with its connection looks whole wherever that breaks. */
function isDelimited(method: string, status: number, headers: UpstreamAnswer['headers']): boolean {
  if (method === 'HEAD' || status === 204 || status === 304) return true
  return headers['content-length'] !== undefined || headers['transfer-encoding'] === 'chunked'
}

function createAnswerStream(controller: DispatchController, gathered: readonly Buffer[]): Readable {
  const stream = new Readable({
    highWaterMark: STREAM_BYTES_MAX,
    read: () => controller.resume(),
    destroy(error, done) {
      // Also when the client is gone: an answer that nobody reads would keep its connection for ever.
      if (!stream.readableEnded) controller.abort(error ?? new Error('the client went away'))
      done(error)
    },
  })
  for (const chunk of gathered) stream.push(chunk)
  return stream
}
