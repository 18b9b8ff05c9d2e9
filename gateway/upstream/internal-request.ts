/** A request of the gateway's own to a backend: a look-up, a probe, a report. Its answer is read whole. */
import type { AnswerReader, BackendConnection, BackendRequest } from './connection.ts'
import type { BackendPool } from './pool.ts'

/** Far more than is ever answered to one. */
const ANSWER_BYTES_MAX = 64 * 1024

export interface OwnAnswer {
  readonly status: number
  readonly text: string
}

/** No whole answer in time. */
export class TooSlow extends Error {}

/** `timeoutMs` is for the whole of it. Rejects with `TooSlow`, or with why no answer came. */
export function askPool(
  pool: BackendPool,
  request: BackendRequest,
  timeoutMs: number,
): Promise<OwnAnswer> {
  return new Promise((resolve, reject) => {
    pool.send(request, new OwnRequest(performance.now() + timeoutMs, resolve, reject))
  })
}

class OwnRequest implements AnswerReader {
  readonly #deadline: number
  readonly #resolve: (answer: OwnAnswer) => void
  readonly #reject: (error: Error) => void
  #connection: BackendConnection | undefined
  #isGivenUp = false
  #status = 0
  #parts: Buffer[] = []
  #bytes = 0

  constructor(
    deadline: number,
    resolve: (answer: OwnAnswer) => void,
    reject: (error: Error) => void,
  ) {
    this.#deadline = deadline
    this.#resolve = resolve
    this.#reject = reject
  }

  onSend(connection: BackendConnection): boolean {
    this.#connection = connection
    return !this.#isGivenUp
  }

  onBegin(): void {}

  onHead(status: number): void {
    this.#status = status
  }

  onData(part: Buffer): void {
    this.#parts.push(part)
    this.#bytes += part.length
    if (this.#bytes > ANSWER_BYTES_MAX) this.#giveUp(new Error('the answer is too large'))
  }

  onEnd(): void {
    this.#resolve({ status: this.#status, text: Buffer.concat(this.#parts).toString() })
  }

  onError(error: Error): void {
    this.#reject(error)
  }

  checkTime(now: number): boolean {
    if (now > this.#deadline) this.#giveUp(new TooSlow('the backend took too long'))
    return !this.#isGivenUp
  }

  #giveUp(reason: Error): void {
    this.#isGivenUp = true
    if (this.#connection === undefined) this.#reject(reason)
    else this.#connection.abort(reason)
  }
}
