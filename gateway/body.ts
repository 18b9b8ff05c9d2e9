/**
 * A request's body, whole and in memory before anything is counted or sent: so that a call can be
 * refused, or repeated towards another backend, without harm.
 */
import { Problem } from '../shared/problem.ts'
import { ChunkedFraming, LengthFraming } from './framing.ts'
import type { BodyFraming } from './request-check.ts'

/** The largest body that is forwarded. */
export const BODY_BYTES_MAX = 256 * 1024
/** All bodies together: what a flood of large ones may take of our memory. */
const ALL_BODIES_BYTES_MAX = 64 * 1024 * 1024

/** `tooLarge`: over `BODY_BYTES_MAX`, the rest not read. Remembered: authentication comes first. */
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

/** Whether there is a body that may be forwarded, as far as the head tells. */
export function isReadable(framing: BodyFraming): boolean {
  return (
    framing.kind === 'chunked' || (framing.kind === 'length' && framing.bytes <= BODY_BYTES_MAX)
  )
}

/** Takes a body out of the bytes of a connection as they come. */
export class BodyReader {
  readonly #bodies: Bodies
  readonly #framing: LengthFraming | ChunkedFraming
  readonly #parts: Buffer[] = []
  #bytes = 0

  constructor(framing: BodyFraming, bodies: Bodies) {
    this.#bodies = bodies
    this.#framing =
      framing.kind === 'length' ? new LengthFraming(framing.bytes) : new ChunkedFraming()
  }

  /**
   * Takes what belongs to the body. Gives it once it is whole or known to be too large, with what stands
   * behind it; undefined before. Throws `Problem` where it is malformed or memory is used up.
   */
  take(bytes: Buffer): { readonly body: Body; readonly rest: Buffer } | undefined {
    const rest = this.#framing.take(bytes, (part) => {
      this.#bodies.hold(part.length)
      this.#bytes += part.length
      this.#parts.push(part)
    })
    if (this.#bytes > BODY_BYTES_MAX) {
      this.drop()
      return { body: 'tooLarge', rest: NO_BODY }
    }
    return rest === undefined ? undefined : { body: Buffer.concat(this.#parts, this.#bytes), rest }
  }

  /** Gives the memory back of what will not become a body. */
  drop(): void {
    this.#bodies.release(this.#bytes)
    this.#bytes = 0
    this.#parts.length = 0
  }
}
