/** Sends the gateway's internal requests to backends: look-ups, probes and reports. Responses are small. */
import type { BackendConnection, BackendRequest, ResponseHandler } from './connection.ts'
import type { BackendPool } from './pool.ts'

/** Larger than any response to an internal request. The largest response describes `LOOK_UPS_MAX` keys. */
const RESPONSE_BYTES_MAX = 256 * 1024

export interface InternalResponse {
  readonly status: number
  readonly text: string
}

/** The response was not complete in time. */
export class InternalTimeout extends Error {}

/** `timeoutMs` covers the whole exchange. Rejects with `InternalTimeout` or the cause of the failure. */
export function sendInternal(
  pool: BackendPool,
  request: BackendRequest,
  timeoutMs: number,
): Promise<InternalResponse> {
  return new Promise((resolve, reject) => {
    pool.send(request, new InternalExchange(performance.now() + timeoutMs, resolve, reject))
  })
}

class InternalExchange implements ResponseHandler {
  readonly #deadline: number
  readonly #resolve: (response: InternalResponse) => void
  readonly #reject: (error: Error) => void
  #connection: BackendConnection | undefined
  #isFailed = false
  #status = 0
  #parts: Buffer[] = []
  #bytes = 0

  constructor(
    deadline: number,
    resolve: (response: InternalResponse) => void,
    reject: (error: Error) => void,
  ) {
    this.#deadline = deadline
    this.#resolve = resolve
    this.#reject = reject
  }

  onSend(connection: BackendConnection): boolean {
    this.#connection = connection
    return !this.#isFailed
  }

  onBegin(): void {}

  onHead(status: number): void {
    this.#status = status
  }

  onData(part: Buffer): void {
    this.#parts.push(Buffer.from(part))
    this.#bytes += part.length
    if (this.#bytes > RESPONSE_BYTES_MAX) this.#fail(new Error('the response is too large'))
  }

  onEnd(): void {
    this.#resolve({ status: this.#status, text: Buffer.concat(this.#parts).toString() })
  }

  onError(error: Error): void {
    this.#reject(error)
  }

  checkDeadline(now: number): boolean {
    if (now > this.#deadline) this.#fail(new InternalTimeout('the backend took too long'))
    return !this.#isFailed
  }

  #fail(reason: Error): void {
    this.#isFailed = true
    if (this.#connection === undefined) this.#reject(reason)
    else this.#connection.abort(reason)
  }
}
