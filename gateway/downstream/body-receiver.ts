import { type Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'
import type { Body, BodyLimits, Call } from '../call/call.ts'
import { type BodyFraming, createBodyDecoder } from '../http1/body-decoder.ts'
import type { RequestReader } from '../http1/request-reader.ts'
import { BodyReader, mayFit } from './request-body.ts'

/**
 * The average rate of a body is computed as if the body had begun this long after the head of its request. Otherwise, a
 * client that has not sent the first bytes yet would be too slow immediately.
 */
const RATE_GRACE_MS = 3_000

/** Times are `performance.now()`. */
interface PendingBody {
  readonly reader: BodyReader
  readonly beganAt: number
  deadline: number
  settle(result: Body | Error): void
}

/** Receives the bodies of the requests of one connection, one after another. */
export class BodyReceiver {
  /** The minimum average rate in bytes per second. */
  readonly #rateMin: number
  readonly #onBytesChanged: () => boolean
  #pending: PendingBody | undefined
  /** Whether the body of the call in progress was read to its end. */
  #isRead = false
  #isAbandoned = false
  #bytes = 0

  /**
   * `onBytesChanged` is called when `bytes` has changed, except by `end`. It returns false if there is no memory for
   * the bytes.
   */
  constructor(rateMin: number, onBytesChanged: () => boolean) {
    this.#rateMin = rateMin
    this.#onBytesChanged = onBytesChanged
  }

  /** The memory that the body uses, in bytes. `end` sets it to 0. */
  get bytes(): number {
    return this.#bytes
  }

  get isPending(): boolean {
    return this.#pending !== undefined
  }

  /** Whether a body was rejected or too large. It is then unknown where the next request begins. */
  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  /**
   * Begins to receive the body of a call. The caller must pass all bytes that arrive to `read`. Resolves with the body,
   * or with `tooLarge` as soon as the body is known to exceed `limits`. Rejects with `Http1Error` if the body is
   * malformed, with `Problem` 503 if memory is used up, with the reason of `call.abort` if the call is aborted, and
   * with the error that is passed to `fail`.
   */
  receive(call: Call, framing: BodyFraming, limits: BodyLimits, deadline: number): Promise<Body> {
    return new Promise((resolve, reject) => {
      const onMemory = (bytes: number) => {
        this.#bytes = bytes
        if (!this.#onBytesChanged()) throw memoryUsedUp()
      }
      const reader = new BodyReader({ framing, limits, onMemory })
      const settle = (result: Body | Error) => {
        call.abort.stopListening()
        this.#pending = undefined
        this.#isRead = result instanceof Buffer
        this.#isAbandoned = !this.#isRead
        if (!(result instanceof Error)) return resolve(result)
        reader.discard()
        reject(result)
      }
      this.#pending = { reader, beganAt: call.arrivedAt, deadline, settle }
      if (!mayFit(framing, limits)) settle('tooLarge')
      else if (call.abort.reason !== undefined) settle(call.abort.reason)
      else call.abort.listen({ abort: settle })
    })
  }

  /**
   * Returns the bytes after the body: all bytes if no body is being received, and an empty buffer if the body is too
   * large. Returns undefined if the body has not ended yet or was rejected.
   */
  read(bytes: Buffer): Buffer | undefined {
    const pending = this.#pending
    if (pending === undefined) return bytes
    try {
      const result = pending.reader.read(bytes)
      if (result === undefined) return undefined
      pending.settle(result.body)
      return result.rest
    } catch (error) {
      pending.settle(error instanceof Error ? error : new Error(String(error)))
      return undefined
    }
  }

  fail(error: Error): void {
    this.#pending?.settle(error)
  }

  /** Rejects the body that is being received with `Problem` 503, so that other connections can use its memory. */
  evict(): void {
    this.fail(memoryUsedUp())
  }

  /**
   * Drops the body of the call in progress from `requests` if it was not read. Returns false if it is unknown
   * where the next request begins, because the body has not arrived completely, is malformed or was abandoned.
   */
  skip(framing: BodyFraming | undefined, requests: RequestReader): boolean {
    if (framing === undefined || this.#isRead) return true
    if (this.#isAbandoned) return false
    try {
      const rest = createBodyDecoder(framing).decode(requests.takeAll(), () => {})
      if (rest === undefined) return false
      requests.push(rest)
      return true
    } catch {
      return false
    }
  }

  /** Must be called when the call has ended. */
  end(): void {
    this.#isRead = false
    this.#bytes = 0
  }

  /** Requires the body to arrive by `by` (`performance.now()`), or by its own deadline if that is earlier. */
  endBy(by: number): void {
    if (this.#pending !== undefined) this.#pending.deadline = Math.min(this.#pending.deadline, by)
  }

  /** Whether the body has missed its deadline, or has arrived more slowly than the minimum average rate. */
  isLate(now: number): boolean {
    if (this.#pending === undefined) return false
    const { reader, beganAt, deadline } = this.#pending
    const ms = now - beganAt - RATE_GRACE_MS
    return now > deadline || reader.bytesRead * 1_000 < ms * this.#rateMin
  }
}

function memoryUsedUp(): Problem {
  return temporarilyUnavailable('Too many requests at once. Try again in a second.')
}
