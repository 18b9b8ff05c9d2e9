/** Serves the calls of all client connections: creates a call for each request head, and writes the response. */
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { containsApiKey } from '../../shared/contract/api-key.ts'
import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { type CollapsingLog, createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import type { Logger } from '../../shared/process/log.ts'
import { Call } from '../call/call.ts'
import type { Http1Error } from '../http1/errors.ts'
import { fieldValue } from '../http1/fields.ts'
import { renderChunkSize } from '../http1/message-writer.ts'
import { clientRequestId, type RequestHead, validateRequestHead } from '../http1/request-head.ts'
import type { RawRequestHead } from '../http1/request-reader.ts'
import type { Connection } from './connection.ts'
import {
  asProblem,
  createProblemRenderer,
  lengthHeader,
  type Outcome,
  type Response,
  type ResponseContext,
  renderHead,
  type WholeResponse,
} from './response.ts'

/** The status that is recorded if the connection was closed before the response, usually by the client. */
const CLIENT_GONE = 499

export interface CallServerOptions {
  readonly baseUrl: string
  readonly log: Logger
  /** Whether each call's record contains the timings of its steps, which tracing needs. */
  readonly recordsSteps: boolean
  /** Returns the value of `Allow`; undefined if there is nothing at the path. */
  allowedMethods(path: string): string | undefined
  /** Called if the head of a call is rejected. In `fields`, lower-case names alternate with values. */
  onInvalidHead(call: Call, fields: readonly string[]): void
  /** Handles a valid request. Returns or throws a `Problem` to reject it; returning takes less time. */
  serve(head: RequestHead, call: Call): Promise<Outcome> | Outcome
  /** Returns the page that a person sees instead of the problem document; undefined for other clients. */
  problemPage?(problem: Problem, call: Call): WholeResponse | undefined
  /** `call` is undefined if no call was created. */
  rateLimitHeaders(call: Call | undefined, status: number): readonly string[]
  /** Called when the response to a call is about to be written. */
  onResponse(call: Call, status: number): void
  /** Called when the response is flushed to the client, or can no longer be sent. */
  onSettled(call: Call, status: number): void
  /** Called when a connection is rejected, because its bytes are no valid request or no request arrived in time. */
  onInvalidRequest(requestId: string, address: string, problem: Problem): void
}

export class CallServer {
  readonly #options: CallServerOptions
  readonly #log: Logger
  readonly #collapsingLog: CollapsingLog
  readonly #renderProblem: ReturnType<typeof createProblemRenderer>
  #isDraining = false

  constructor(options: CallServerOptions) {
    this.#options = options
    this.#log = options.log
    this.#collapsingLog = createCollapsingLog(options.log)
    this.#renderProblem = createProblemRenderer(options.baseUrl)
  }

  /**
   * From now on, a response closes its connection, unless another request has begun to arrive on it. See also
   * `Connection.isDrainOverdue`.
   */
  drain(): void {
    this.#isDraining = true
  }

  /** Begins a call, and calls `connection.end` when the call has ended. */
  serve(connection: Connection, raw: RawRequestHead, arrivedAt: number): Call {
    const { recordsSteps } = this.#options
    const requestId = requestIdOf(raw.fields)
    const call = new Call({ connection, method: raw.method, requestId, arrivedAt, recordsSteps })
    void this.#handle(call, connection, raw)
    return call
  }

  /** Renders the last response on a connection that is rejected. The text has one character per byte (latin1). */
  reject({ address }: Connection, error: Http1Error | Problem): string {
    const problem = asProblem(error)
    const requestId = createId('req')
    this.#options.onInvalidRequest(requestId, address, problem)
    const response = this.#renderProblem(problem, requestId)
    const framing = lengthHeader(response.body)
    const rateLimitHeaders = this.#options.rateLimitHeaders(undefined, response.status)
    const context = { requestId, rateLimitHeaders, closes: true }
    return renderHead(response, framing, context) + response.body?.toString('latin1')
  }

  async #handle(call: Call, connection: Connection, raw: RawRequestHead): Promise<void> {
    let closes = true
    let status = CLIENT_GONE
    let response: Response | undefined
    try {
      try {
        call.record.head = validateRequestHead(raw)
        const outcome = await this.#options.serve(call.record.head, call)
        response = outcome instanceof Problem ? this.#responseTo(outcome, call) : outcome
      } catch (error) {
        if (!connection.isOpen) return
        response =
          call.record.head === undefined
            ? this.#responseToInvalidHead(error, call, raw)
            : this.#responseTo(error, call)
      }
      status = response.status
      closes = this.#isLast(call, connection, response)
      this.#options.onResponse(call, status)
      // `await` is needed even if the response was flushed immediately: the call must not end before
      // `Connection` has registered it.
      await this.#send(call, connection, response, closes)
    } catch (error) {
      this.#log.error(
        { requestId: call.requestId, err: error },
        'writing the response failed: the connection is closed',
      )
      const problem = asProblem(error)
      call.record.code = problem.code
      status = problem.status
      // Without this, a streamed body would occupy its connection to the backend forever.
      if (response?.body instanceof Readable) response.body.destroy()
      connection.destroy()
    } finally {
      this.#settle(call, status)
      // Without this, all pipelined calls that get an immediate response, such as a 401, would be served in the same
      // turn of the event loop, and other clients would wait for seconds.
      if (!connection.isReadAheadEmpty) await setImmediate()
      connection.end(closes)
    }
  }

  #settle(call: Call, status: number): void {
    try {
      this.#options.onSettled(call, status)
    } catch (error) {
      this.#log.error(
        { requestId: call.requestId, err: error },
        'logging a call failed: its log line, metrics or spans are missing',
      )
    }
  }

  #responseToInvalidHead(error: unknown, call: Call, { fields, target }: RawRequestHead): Response {
    this.#options.onInvalidHead(call, fields)
    const [path = ''] = target.split('?', 1)
    return this.#responseTo(asProblem(error, this.#options.allowedMethods(path)), call)
  }

  #responseTo(error: unknown, call: Call): Response {
    const problem = asProblem(error)
    call.record.code = problem.code
    if (problem.status >= 500) this.#logFault(call, problem)
    const page = this.#options.problemPage?.(problem, call)
    return page ?? this.#renderProblem(problem, call.requestId)
  }

  /**
   * Whether the connection closes after this response. If the connection stays open, this function also drops a request
   * body that was not read, because the next request begins after this body.
   */
  #isLast(
    { record: { head }, sentContinue }: Call,
    connection: Connection,
    { body }: Response,
  ): boolean {
    if (head === undefined || head.closes) return true
    // A streamed body may lack a length, and an HTTP/1.0 client then recognizes its end only by the closed connection.
    if (head.version === '1.0' && body !== undefined && !Buffer.isBuffer(body)) return true
    // Without `100 Continue`, it is unknown whether the client sends its body.
    if (head.expectsContinue && !sentContinue) return true
    if (!connection.skipBody(head.framing) || connection.isReadAheadDropped) return true
    const { isDrainOverdue, isHalfClosed, isOld, isReadAheadEmpty } = connection
    if (isDrainOverdue) return true
    return (this.#isDraining || isHalfClosed || isOld) && isReadAheadEmpty
  }

  #send(
    call: Call,
    connection: Connection,
    response: Response,
    closes: boolean,
  ): Promise<void> | undefined {
    const { record, method, requestId } = call
    const { status, body } = response
    const rateLimitHeaders = this.#options.rateLimitHeaders(call, status)
    const context = { requestId, rateLimitHeaders, closes }
    const isHead = method === 'HEAD'
    if (body !== undefined && !Buffer.isBuffer(body)) {
      return this.#stream(call, connection, { ...response, body }, context)
    }
    record.sentBytes = body === undefined || isHead ? 0 : body.length
    const head = renderHead(response, lengthHeader(body), context)
    return connection.write(head, isHead ? undefined : body)
  }

  async #stream(
    { record, method, requestId }: Call,
    connection: Connection,
    { status, headers, body }: Omit<Response, 'body'> & { readonly body: Readable },
    context: ResponseContext,
  ): Promise<void> {
    const hasBody = method !== 'HEAD' && status !== 204 && status !== 304
    const hasLength = fieldValue(headers, 'content-length') !== undefined
    const isChunked = hasBody && !hasLength && record.head?.version !== '1.0'
    const framing = isChunked ? ['transfer-encoding', 'chunked'] : []
    const bytesBefore = connection.bytesWritten
    try {
      await connection.write(renderHead({ status, headers }, framing, context))
      let lineEnd = ''
      for await (const part of body as AsyncIterable<Buffer>) {
        if (!connection.isOpen) break
        if (!hasBody || part.length === 0) continue
        await connection.write(isChunked ? lineEnd + renderChunkSize(part.length) : '', part)
        lineEnd = '\r\n'
      }
      if (isChunked) await connection.write(`${lineEnd}${renderChunkSize(0)}\r\n`)
    } catch (error) {
      connection.reset()
      this.#log.warn({ requestId, err: error }, 'response was cut off')
    }
    record.sentBytes = connection.bytesWritten - bytesBefore
  }

  #logFault({ requestId }: Call, problem: Problem): void {
    const { code, cause, message } = problem
    const kind = cause instanceof Error ? `${message} ${cause.name}` : message
    this.#collapsingLog.error(kind, { requestId, code, err: cause }, message)
  }
}

/** A client that sends its API key as the request id gets another id, because request ids are logged. */
function requestIdOf(fields: readonly string[]): string {
  const requestId = clientRequestId(fields)
  return requestId === undefined || containsApiKey(requestId) ? createId('req') : requestId
}
