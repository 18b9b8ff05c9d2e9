/**
 * A request's body, whole and in memory before anything is counted or sent: so that a call can be
 * refused, or repeated towards another backend, without harm.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { createFraming, type Framing } from '../http1/framing.ts'
import type { BodyFraming } from '../http1/request-head.ts'

/** The largest body that is forwarded. */
export const BODY_BYTES_MAX = 256 * 1024
/**
 * Mail that comes in may have attachments, and whoever brings it repeats none that was refused. What
 * it is and says stands at its beginning: that is forwarded, the rest read and dropped.
 */
export const MAIL_BYTES_MAX = 40 * 1024 * 1024
/** All bodies together: what a flood of large ones may take of our memory. */
const ALL_BODIES_BYTES_MAX = 64 * 1024 * 1024

/** `tooLarge`: over what is read of it, the rest not read. Remembered: authentication comes first. */
export type Body = Buffer | 'tooLarge'

export const NO_BODY: Buffer = Buffer.alloc(0)

/** The memory that bodies take. */
export class Bodies {
  #bytesHeld = 0

  get bytesHeld(): number {
    return this.#bytesHeld
  }

  /** Throws `Problem` 503 where it is used up. */
  hold(bytes: number): void {
    if (this.#bytesHeld + bytes > ALL_BODIES_BYTES_MAX) {
      throw new Problem(
        'service_unavailable',
        'Too many requests at once. Try again in a second.',
        {
          headers: { 'retry-after': '1' },
        },
      )
    }
    this.#bytesHeld += bytes
  }

  /** Gives it back. */
  release(bytes: number): void {
    this.#bytesHeld -= bytes
  }
}

/** Whether it is small enough, as far as the head tells. */
export function isReadable(framing: BodyFraming, bytesMax: number): boolean {
  return framing.kind === 'chunked' || framing.bytes <= bytesMax
}

/**
 * Takes a body out of the bytes of a connection as they come. They are copied: however small the parts
 * they come in, what is kept is what is counted.
 */
export class BodyReader {
  readonly #bodies: Bodies
  readonly #framing: Framing
  readonly #bytesMax: number
  readonly #keptMax: number
  #bytesRead = 0
  /** With room for more behind the first `#bytes`. */
  #buffer = NO_BODY
  /** Kept. */
  #bytes = 0

  /** A body over `bytesMax` is too large. Of one over `BODY_BYTES_MAX` the beginning is kept. */
  constructor(framing: BodyFraming, bytesMax: number, bodies: Bodies) {
    this.#bodies = bodies
    this.#framing = createFraming(framing)
    this.#bytesMax = bytesMax
    this.#keptMax =
      framing.kind === 'length' ? Math.min(framing.bytes, BODY_BYTES_MAX) : BODY_BYTES_MAX
  }

  /**
   * Takes what belongs to the body. Gives it once it is whole or known to be too large, with what stands
   * behind it; undefined before. Throws `Problem` where it is malformed or memory is used up.
   */
  take(bytes: Buffer): { readonly body: Body; readonly rest: Buffer } | undefined {
    const rest = this.#framing.take(bytes, (part) => this.#add(part))
    if (this.#bytesRead > this.#bytesMax) {
      this.drop()
      return { body: 'tooLarge', rest: NO_BODY }
    }
    if (rest === undefined) return undefined
    this.#bodies.release(this.#buffer.length - this.#bytes)
    return { body: this.#buffer.subarray(0, this.#bytes), rest }
  }

  /** Gives the memory back of what will not become a body. */
  drop(): void {
    this.#bodies.release(this.#buffer.length)
    this.#buffer = NO_BODY
    this.#bytes = 0
  }

  #add(part: Buffer): void {
    this.#bytesRead += part.length
    if (this.#bytesRead > this.#bytesMax) return
    const from = this.#bytes
    this.#bytes = Math.min(from + part.length, BODY_BYTES_MAX)
    if (this.#bytes > this.#buffer.length) this.#grow(from)
    part.copy(this.#buffer, from, 0, this.#bytes - from)
  }

  /** `used`: what is in it already. */
  #grow(used: number): void {
    const bytes = Math.max(this.#bytes, Math.min(2 * this.#buffer.length, this.#keptMax))
    this.#bodies.hold(bytes - this.#buffer.length)
    const larger = Buffer.allocUnsafe(bytes)
    this.#buffer.copy(larger, 0, 0, used)
    this.#buffer = larger
  }
}
