/** The state of one call, which is shared by the components that handle the call. */
import type { BodyFraming } from '../http1/body-decoder.ts'
import type { Allowance } from '../rate-limit/limiter.ts'
import { Abort } from './abort.ts'
import { type CallRecord, createCallRecord } from './call-record.ts'

/**
 * The body of a request; `tooLarge` if it is longer than `BodyLimits.bytesMax`. An API call with such a body gets 413
 * only after authentication.
 */
export type Body = Buffer | 'tooLarge'

/** How many bytes of a body are read, and how many are kept. */
export interface BodyLimits {
  /** A longer body is rejected as too large. */
  readonly bytesMax: number
  /** How many bytes are forwarded; the rest is dropped. Less than `bytesMax` only for incoming mails. */
  readonly keptBytesMax: number
}

export interface CallConnection {
  /** The address at the other end of the connection: of the client, or of a proxy in front of the gateway. */
  readonly address: string
  /**
   * Reads the body within `limits`; if `sendContinue` is true, sends `100 Continue` first. Rejects with `Http1Error` if
   * the body is malformed, with `Problem` 503 if memory is used up, and with the reason of `call.abort` if the call is
   * aborted.
   */
  readBody(
    call: Call,
    framing: BodyFraming,
    limits: BodyLimits,
    sendContinue: boolean,
  ): Promise<Body>
}

export interface CallOptions {
  readonly connection: CallConnection
  readonly method: string
  readonly requestId: string
  readonly arrivedAt: number
  readonly recordsSteps: boolean
}

export class Call {
  readonly #connection: CallConnection
  /** The method in the request line, which may be unknown. */
  readonly method: string
  /** The request id of the client if it sent a valid one, otherwise a new id. */
  readonly requestId: string
  /** `performance.now()` when the complete head had arrived and the previous call had ended. */
  readonly arrivedAt: number
  readonly abort = new Abort()
  readonly record: CallRecord
  /** The result of the rate limiter. If the call is over the limit (`isOverLimit`), it was not counted. */
  allowance: Allowance | undefined = undefined
  /** The key whose limit the rate-limit headers show if the call has no allowance. */
  keyForLimitHeaders: { readonly keyId: string; readonly rateLimit: number } | undefined = undefined
  /**
   * Whether the key was cached when the call arrived. This decides in which partition of the budget, `known` or
   * `unknown`, the memory of the call counts.
   */
  isKeyKnown = false
  sentContinue = false
  /** Whether the response to this API call comes from a backend. Not set for pages. */
  hasBackendResponse = false

  constructor({ connection, method, requestId, arrivedAt, recordsSteps }: CallOptions) {
    this.#connection = connection
    this.method = method
    this.requestId = requestId
    this.arrivedAt = arrivedAt
    this.record = createCallRecord(connection.address, recordsSteps)
  }

  /** See `CallConnection.readBody`. */
  readBody(framing: BodyFraming, limits: BodyLimits, sendContinue: boolean): Promise<Body> {
    this.sentContinue = sendContinue
    return this.#connection.readBody(this, framing, limits, sendContinue)
  }
}
