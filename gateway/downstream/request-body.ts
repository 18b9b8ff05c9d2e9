/**
 * Reads the body of a request into memory before the call is counted or forwarded, so that the call can still be
 * rejected, or sent to another backend.
 */
import { BODY_BYTES_MAX } from '../../shared/contract/contract.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { allocateBuffer } from '../../shared/process/buffers.ts'
import type { Body, BodyLimits } from '../call/call.ts'
import { type BodyDecoder, type BodyFraming, createBodyDecoder } from '../http1/body-decoder.ts'

/** For API calls and most pages. The whole body is kept. */
export const CALL_BODY_LIMITS: BodyLimits = {
  bytesMax: BODY_BYTES_MAX,
  keptBytesMax: BODY_BYTES_MAX,
}
export const NO_BODY: Buffer = Buffer.alloc(0)

export function bodyTooLarge({ bytesMax }: BodyLimits): Problem {
  return new Problem('payload_too_large', `The body is over ${bytesMax} bytes.`, {
    members: { max_bytes: bytesMax },
  })
}

/** Returns false if the body is certainly too long. The length of a chunked body is not known in advance. */
export function mayFit(framing: BodyFraming, { bytesMax }: BodyLimits): boolean {
  return framing.kind === 'chunked' || framing.bytes <= bytesMax
}

export interface BodyReaderOptions {
  readonly framing: BodyFraming
  readonly limits: BodyLimits
  /** Called when the body's memory changes to `bytes`. Throws `Problem` 503 if there is no memory. */
  onMemory(bytes: number): void
}

/**
 * Copies a body out of the packets of a connection. A reference to a part of a packet would keep the whole packet in
 * memory, and more memory would be in use than is counted.
 */
export class BodyReader {
  readonly #onMemory: (bytes: number) => void
  readonly #decoder: BodyDecoder
  readonly #limits: BodyLimits
  /** `limits.keptBytesMax`, or the length of the body if it is known and smaller. */
  readonly #keptBytesMax: number
  #bytesRead = 0
  /** The buffer may be larger than the `#bytesKept` bytes in it. */
  #buffer = NO_BODY
  #bytesKept = 0
  #reportedBytes = 0

  constructor({ framing, limits, onMemory }: BodyReaderOptions) {
    this.#onMemory = onMemory
    this.#decoder = createBodyDecoder(framing)
    this.#limits = limits
    const { keptBytesMax } = limits
    this.#keptBytesMax =
      framing.kind === 'length' ? Math.min(framing.bytes, keptBytesMax) : keptBytesMax
  }

  /** The number of bytes of the body so far, including those that were not kept. */
  get bytesRead(): number {
    return this.#bytesRead
  }

  /**
   * Reads the bytes of the body from `bytes`. When the body is complete, returns the bytes that were kept of it and
   * the bytes after it, which belong to the next request. When the body is known to be too large, returns `tooLarge`
   * and no bytes, because it is unknown where the next request begins. Until then, returns undefined. Throws
   * `Http1Error` if the body is malformed, and `Problem` 503 if memory is used up.
   */
  read(bytes: Buffer): { readonly body: Body; readonly rest: Buffer } | undefined {
    const rest = this.#decoder.decode(bytes, (part) => this.#append(part))
    if (this.#bytesRead > this.#limits.bytesMax) {
      this.discard()
      return { body: 'tooLarge', rest: NO_BODY }
    }
    this.#reportMemory(this.#buffer.length + this.#decoder.bufferedBytes)
    if (rest === undefined) return undefined
    return { body: this.#buffer.subarray(0, this.#bytesKept), rest }
  }

  discard(): void {
    this.#reportMemory(0)
    this.#buffer = NO_BODY
    this.#bytesKept = 0
  }

  #append(part: Buffer): void {
    this.#bytesRead += part.length
    if (this.#bytesRead > this.#limits.bytesMax) return
    const from = this.#bytesKept
    this.#bytesKept = Math.min(from + part.length, this.#keptBytesMax)
    if (this.#bytesKept > this.#buffer.length) this.#grow(from)
    part.copy(this.#buffer, from, 0, this.#bytesKept - from)
  }

  /** The buffer contains `used` bytes already. */
  #grow(used: number): void {
    const bytes = Math.max(this.#bytesKept, Math.min(2 * this.#buffer.length, this.#keptBytesMax))
    this.#reportMemory(bytes)
    const larger = allocateBuffer(bytes)
    this.#buffer.copy(larger, 0, 0, used)
    this.#buffer = larger
  }

  #reportMemory(bytes: number): void {
    if (bytes === this.#reportedBytes) return
    this.#reportedBytes = bytes
    this.#onMemory(bytes)
  }
}
