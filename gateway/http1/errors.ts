/**
 * The errors of the parsers in this folder. The gateway converts an error in a client's request into a 4xx, and an
 * error in a backend's response into a 502.
 */
import { HEADER_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX } from './limits.ts'

export type Http1Fault =
  /** The message violates the grammar, is ambiguous, or uses a feature that is not supported. */
  | 'malformed'
  | 'unknown_method'
  | 'duplicate_authorization'
  | 'duplicate_idempotency_key'
  | 'target_too_long'
  | 'headers_too_large'

export class Http1Error extends Error {
  readonly fault: Http1Fault

  /**
   * `message` explains the fault: to the client for a request, and in the log for a response. It contains no
   * unvalidated bytes from the sender.
   */
  constructor(fault: Http1Fault, message: string) {
    super(message)
    this.name = 'Http1Error'
    this.fault = fault
  }
}

export function malformed(message = 'This is not well-formed HTTP/1.1.'): Http1Error {
  return new Http1Error('malformed', message)
}

export function targetTooLong(): Http1Error {
  return new Http1Error('target_too_long', `The request target is over ${TARGET_BYTES_MAX} bytes.`)
}

export function headersTooLarge(): Http1Error {
  return new Http1Error(
    'headers_too_large',
    `Send at most ${HEADERS_MAX} headers, with at most ${HEADER_BYTES_MAX} bytes in total.`,
  )
}
