/** One call from the arrival of its head to its response, as all parts of the gateway see it. */
import type { BodyFraming } from '../http1/body-decoder.ts'
import type { Allowance } from '../rate-limit/limiter.ts'
import { Abort } from './abort.ts'
import { type CallRecord, createCallRecord } from './call-record.ts'

/**
 * The body of a request. `tooLarge`: it exceeds the limit and is discarded. The pipeline answers 413 only
 * after authentication.
 */
export type Body = Buffer | 'tooLarge'

/** The client connection of a call. */
export interface CallConnection {
  /** The address of the client, or of the proxy in front of the gateway. */
  readonly address: string
  /**
   * Reads the body, of at most `bytesMax`; sends `100 Continue` first if `sendContinue`. Rejects with
   * `Http1Error` if the body is malformed, with `Problem` 503 if memory is used up, and with the reason
   * of `call.abort` if the call is aborted.
   */
  readBody(call: Call, framing: BodyFraming, bytesMax: number, sendContinue: boolean): Promise<Body>
}

export interface CallOptions {
  readonly connection: CallConnection
  readonly method: string
  readonly requestId: string
  readonly arrivedAt: number
  /** Whether to record the timings of each step, for a trace. */
  readonly recordsSteps: boolean
}

export class Call {
  readonly #connection: CallConnection
  /** As the request line names it, known or not. */
  readonly method: string
  /** The client's, if it sent a usable one. */
  readonly requestId: string
  /** `performance.now()` when the head had arrived. */
  readonly arrivedAt: number
  readonly abort = new Abort()
  readonly record: CallRecord
  /** Set once the key is authenticated and the call counted. */
  allowance: Allowance | undefined = undefined
  /** The key as far as the call may know its rate limit before, or without, being counted. */
  rateLimited: { readonly keyId: string; readonly rateLimit: number } | undefined = undefined
  /** Whether the key is cached, so that the memory of the body is of its partition. */
  isKeyKnown = false
  /** Whether `100 Continue` was sent. */
  sentContinue = false
  /** Whether the response is the backend's. */
  forwarded = false

  constructor({ connection, method, requestId, arrivedAt, recordsSteps }: CallOptions) {
    this.#connection = connection
    this.method = method
    this.requestId = requestId
    this.arrivedAt = arrivedAt
    this.record = createCallRecord(connection.address, recordsSteps)
  }

  /** See `CallConnection.readBody`. */
  readBody(framing: BodyFraming, bytesMax: number, sendContinue: boolean): Promise<Body> {
    this.sentContinue = sendContinue
    return this.#connection.readBody(this, framing, bytesMax, sendContinue)
  }
}
