/**
 * Sends an approved call to a backend and brings its answer. Only headers that are meant for the
 * backend go up, only those meant for the client come down; an answer that breaks off is never
 * passed on as a whole one.
 */
import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { Logger } from '../shared/log.ts'
import { Problem } from '../shared/problem.ts'
import { type Backend, type Upstream, wasNeverConnected } from './upstream.ts'

/** Answers up to this size are read whole first, so that one that breaks off becomes a 502. */
const BUFFERED_BYTES_MAX = 256 * 1024
/** How long a request may wait for a connection. */
const QUEUE_TIMEOUT_MS = 5_000
/** Requests in line for one backend's connections; beyond that we are overloaded. */
const QUEUED_MAX = 1_000
/** A backend that sends more informational answers (1xx) than this is broken. */
const INFORMATIONAL_MAX = 8
/** Repeats are at most this share of the calls, so that a sick backend is not hit twice as hard. */
const REPEAT_SHARE = 0.1
const REPEATS_SAVED_MAX = 10

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

export interface Forwarder {
  /**
   * Throws `Problem` 503 where nothing was sent, 504 past a deadline, 502 where the answer was lost
   * or garbled. `signal` aborts when the client goes away.
   */
  forward(request: UpstreamRequest, signal: AbortSignal): Promise<UpstreamAnswer>
}

/** How far an attempt got, which decides whether it may be repeated. */
type Progress = 'nothing_sent' | 'sent' | 'answer_begun'

class AttemptFailed extends Error {
  readonly progress: Progress

  constructor(progress: Progress, cause: unknown) {
    super('the backend did not answer', { cause })
    this.progress = progress
  }
}

export function createForwarder(upstream: Upstream, log: Logger): Forwarder {
  let repeats = REPEATS_SAVED_MAX

  async function forward(request: UpstreamRequest, signal: AbortSignal): Promise<UpstreamAnswer> {
    repeats = Math.min(REPEATS_SAVED_MAX, repeats + REPEAT_SHARE)
    const backend = upstream.choose()
    try {
      return await attempt(backend, request, signal)
    } catch (error) {
      const failure = asFailure(error)
      noteFailure(backend, failure)
      const mayRepeat =
        failure.progress === 'nothing_sent' || (failure.progress === 'sent' && request.idempotent)
      if (!mayRepeat || repeats < 1 || signal.aborted || isDeadline(failure.cause)) {
        throw problemOf(failure)
      }
      repeats--
      return repeat(upstream.choose(backend), request, signal, failure)
    }
  }

  async function repeat(
    backend: Backend,
    request: UpstreamRequest,
    signal: AbortSignal,
    first: AttemptFailed,
  ): Promise<UpstreamAnswer> {
    try {
      return await attempt(backend, request, signal)
    } catch (error) {
      const failure = asFailure(error)
      noteFailure(backend, failure)
      // What the first attempt may have done stays unknown, however little the second did.
      throw problemOf(first.progress === 'nothing_sent' ? failure : first)
    }
  }

  function noteFailure(backend: Backend, failure: AttemptFailed): void {
    if (wasNeverConnected(failure.cause)) upstream.markUnreachable(backend)
    log.warn({ backend: backend.url, progress: failure.progress, err: failure.cause }, 'upstream')
  }

  return { forward }
}

function attempt(
  { pool }: Backend,
  request: UpstreamRequest,
  signal: AbortSignal,
): Promise<UpstreamAnswer> {
  if (pool.stats.queued > QUEUED_MAX) throw new AttemptFailed('nothing_sent', 'queue is full')
  return new Promise((resolve, reject) => {
    const exchange = createExchange(signal, resolve, reject)
    const { method, target: path, headers, body } = request
    pool.dispatch({ method, path, headers, body: body.length > 0 ? body : null }, exchange)
  })
}

/** One attempt as undici drives it. Small answers are gathered, large ones become a stream. */
function createExchange(
  signal: AbortSignal,
  resolve: (answer: UpstreamAnswer) => void,
  reject: (failure: AttemptFailed) => void,
): Dispatcher.DispatchHandler {
  let progress: Progress = 'nothing_sent'
  let controller: Dispatcher.DispatchController | undefined
  let settled = false
  let informational = 0
  let head: Omit<UpstreamAnswer, 'body'> | undefined
  let stream: Readable | undefined
  const chunks: Buffer[] = []
  let bytes = 0

  // Before a connection takes the request there is nothing to abort but the wait.
  const abort = (reason: Error) => {
    if (controller === undefined) finish(() => reject(new AttemptFailed(progress, reason)))
    else controller.abort(reason)
  }
  const onClientGone = () => abort(new Error('the client went away'))
  const inLine = setTimeout(() => abort(new Error('no connection became free')), QUEUE_TIMEOUT_MS)
  const finish = (settle: () => void) => {
    settled = true
    clearTimeout(inLine)
    signal.removeEventListener('abort', onClientGone)
    settle()
  }
  signal.addEventListener('abort', onClientGone)

  return {
    onRequestStart(started) {
      // Given up while it waited in line.
      if (settled) return started.abort(new Error('no longer wanted'))
      clearTimeout(inLine)
      controller = started
      progress = 'sent'
    },
    onResponseStarted() {
      progress = 'answer_begun'
    },
    onResponseStart(started, status, headers) {
      if (status < 200 && status !== 101 && ++informational <= INFORMATIONAL_MAX) return
      if (status < 200 || status > 599) return started.abort(new Error(`upstream status ${status}`))
      head = { status, headers }
    },
    onResponseData(started, chunk) {
      if (stream !== undefined) {
        if (!stream.push(chunk)) started.pause()
        return
      }
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes <= BUFFERED_BYTES_MAX || head === undefined) return
      stream = createAnswerStream(started, chunks)
      resolve({ ...head, body: stream })
    },
    onResponseEnd() {
      finish(() => {
        if (stream !== undefined) stream.push(null)
        else if (head !== undefined) resolve({ ...head, body: Buffer.concat(chunks, bytes) })
      })
    },
    onResponseError(_, error) {
      finish(() => {
        if (stream !== undefined) stream.destroy(error)
        else reject(new AttemptFailed(progress, error))
      })
    },
  }
}

function createAnswerStream(
  controller: Dispatcher.DispatchController,
  gathered: readonly Buffer[],
): Readable {
  const stream = new Readable({
    read: () => controller.resume(),
    destroy(error, done) {
      // Also when the client is gone: an answer that nobody reads would keep its connection for ever.
      if (!stream.readableEnded) controller.abort(error ?? new Error('the client went away'))
      done(error)
    },
  })
  for (const chunk of gathered) stream.push(chunk)
  controller.pause()
  return stream
}

function asFailure(error: unknown): AttemptFailed {
  return error instanceof AttemptFailed ? error : new AttemptFailed('nothing_sent', error)
}

function isDeadline(cause: unknown): boolean {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  return code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT'
}

function problemOf({ progress, cause }: AttemptFailed): Problem {
  if (isDeadline(cause)) {
    return new Problem(
      'gateway_timeout',
      'The answer took too long; what it did is not known. Retry with the same Idempotency-Key.',
      { cause },
    )
  }
  if (progress === 'nothing_sent') {
    return new Problem('service_unavailable', 'Nothing was done. Try again in a second.', {
      headers: { 'retry-after': '1' },
      cause,
    })
  }
  return new Problem(
    'bad_gateway',
    'The answer was lost; what it did is not known. Retry with the same Idempotency-Key.',
    { cause },
  )
}
