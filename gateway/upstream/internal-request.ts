/** Sends the gateway's internal requests to backends: look-ups, probes and reports. */
import type { BackendConnection, BackendRequest, ResponseHandler } from './connection.ts'
import type { BackendPool } from './pool.ts'

/** Larger than any response to an internal request; a look-up of several keys has the largest. */
const RESPONSE_BYTES_MAX = 256 * 1024

export interface InternalResponse {
  readonly status: number
  readonly text: string
}

/** The response was not complete in time. */
export class InternalTimeout extends Error {}

/** The response must be complete by `deadline` (`performance.now()`). */
export function sendInternal(
  pool: BackendPool,
  request: BackendRequest,
  deadline: number,
): InternalExchange {
  const exchange = new Exchange(deadline)
  pool.send(request, exchange)
  return exchange
}

/** An internal request that was sent, or that waits for a connection. */
export interface InternalExchange {
  /** Rejects with `InternalTimeout`, the cause of the failure, or the reason of `abort`. */
  readonly response: Promise<InternalResponse>
  /** Has no effect if the exchange has ended. */
  abort(reason: Error): void
}

class Exchange implements InternalExchange, ResponseHandler {
  readonly #deadline: number
  readonly #outcome = Promise.withResolvers<InternalResponse>()
  #connection: BackendConnection | undefined
  #hasEnded = false
  #status = 0
  #parts: Buffer[] = []
  #bytes = 0

  constructor(deadline: number) {
    this.#deadline = deadline
  }

  get response(): Promise<InternalResponse> {
    return this.#outcome.promise
  }

  onSend(connection: BackendConnection): boolean {
    if (!this.#hasEnded) this.#connection = connection
    return !this.#hasEnded
  }

  onBegin(): void {}

  onHead(status: number): void {
    this.#status = status
  }

  onData(part: Buffer): void {
    // `part` is copied, because all connections share one read buffer.
    this.#parts.push(Buffer.from(part))
    this.#bytes += part.length
    if (this.#bytes > RESPONSE_BYTES_MAX) this.abort(new Error('the response is too large'))
  }

  onEnd(): void {
    this.#hasEnded = true
    this.#outcome.resolve({ status: this.#status, text: Buffer.concat(this.#parts).toString() })
  }

  onError(error: Error): void {
    this.#hasEnded = true
    this.#outcome.reject(error)
  }

  abortIfLate(now: number): boolean {
    if (now > this.#deadline) this.abort(new InternalTimeout('the backend took too long'))
    return !this.#hasEnded
  }

  abort(reason: Error): void {
    // The connection may carry another request by now, which must not be aborted.
    if (this.#hasEnded) return
    if (this.#connection === undefined) this.onError(reason)
    else this.#connection.abort(reason)
  }
}
