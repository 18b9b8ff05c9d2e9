/**
 * Reads the body of a request into memory before anything is counted or sent. A call can therefore be
 * rejected, or retried at another backend, without harm.
 */
import { Problem } from '../../shared/contract/problem.ts'
import type { Body } from '../call/call.ts'
import { type BodyDecoder, type BodyFraming, createBodyDecoder } from '../http1/body-decoder.ts'

/** The largest body that is forwarded. */
export const BODY_BYTES_MAX = 256 * 1024
/** Bodies of calls whose key is cached, all together. */
const KNOWN_BODIES_BYTES_MAX = 48 * 1024 * 1024
/** All others. They have memory of their own so that made-up keys cannot block the writes of known ones. */
const UNKNOWN_BODIES_BYTES_MAX = 16 * 1024 * 1024

export const NO_BODY: Buffer = Buffer.alloc(0)

/** Only bodies up to this size may use the last part of the memory: most payments are smaller. */
const SMALL_BODY_BYTES = 4 * 1024
const SMALL_BODIES_BYTES = 4 * 1024 * 1024
/** A body that has been arriving for longer gives way to others when the memory is used up. */
const EVICTABLE_AFTER_MS = 1_000

/** A body that is being received. */
export interface IncomingBody {
  /** By `performance.now()`. */
  readonly beganAt: number
  /** Releases its memory; the call ends with `problem`. */
  evict(problem: Problem): void
}

/**
 * Memory of bodies, with a limit. When it is used up, bodies that have been arriving for long are evicted, the oldest
 * first: without this, a few hundred clients that send half a body and wait would block every write.
 */
export class BodyMemory {
  readonly #bytesMax: number
  /** The oldest first. */
  readonly #incoming = new Set<IncomingBody>()
  #bytesUsed = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get bytesUsed(): number {
    return this.#bytesUsed
  }

  /** Memory for a body that grows by `bytes` to `total`. Throws `Problem` 503 if there is none. */
  reserve(body: IncomingBody, bytes: number, total: number): void {
    const max = this.#bytesMax - (total > SMALL_BODY_BYTES ? SMALL_BODIES_BYTES : 0)
    while (this.#bytesUsed + bytes > max) {
      const [oldest] = this.#incoming
      if (oldest === undefined || oldest === body || !isEvictable(oldest)) throw usedUp()
      this.#incoming.delete(oldest)
      oldest.evict(usedUp())
    }
    this.#incoming.add(body)
    this.#bytesUsed += bytes
  }

  /** The body is whole, or not wanted any more. */
  leave(body: IncomingBody): void {
    this.#incoming.delete(body)
  }

  release(bytes: number): void {
    this.#bytesUsed -= bytes
  }
}

function isEvictable({ beganAt }: IncomingBody): boolean {
  return performance.now() - beganAt > EVICTABLE_AFTER_MS
}

function usedUp(): Problem {
  return new Problem('service_unavailable', 'Too many requests at once. Try again in a second.', {
    headers: { 'retry-after': '1' },
  })
}

/** The memory that the bodies of all calls use, in two partitions. */
export interface BodyMemories {
  /** Of calls whose key is cached. */
  readonly known: BodyMemory
  readonly unknown: BodyMemory
}

export function createBodyMemories(): BodyMemories {
  return {
    known: new BodyMemory(KNOWN_BODIES_BYTES_MAX),
    unknown: new BodyMemory(UNKNOWN_BODIES_BYTES_MAX),
  }
}

/** Whether the body may be within `bytesMax`: that of a chunked one is known only at its end. */
export function mayFit(framing: BodyFraming, bytesMax: number): boolean {
  return framing.kind === 'chunked' || framing.bytes <= bytesMax
}

export interface BodyReaderOptions {
  readonly framing: BodyFraming
  readonly bytesMax: number
  readonly memory: BodyMemory
  onEvict(problem: Problem): void
}

/** Copies a body out of the packets of a connection, so that its memory is what is counted. */
export class BodyReader implements IncomingBody {
  readonly beganAt = performance.now()
  readonly #onEvict: (problem: Problem) => void
  readonly #memory: BodyMemory
  readonly #decoder: BodyDecoder
  readonly #bytesMax: number
  readonly #keptMax: number
  #bytesRead = 0
  /** May have room for more behind the first `#bytesKept`. */
  #buffer = NO_BODY
  #bytesKept = 0

  /**
   * A body over `bytesMax` is too large; of one over `BODY_BYTES_MAX` only the beginning is kept. `onEvict`: the memory
   * is used up, and this body has been arriving for long.
   */
  constructor({ framing, bytesMax, memory, onEvict }: BodyReaderOptions) {
    this.#memory = memory
    this.#onEvict = onEvict
    this.#decoder = createBodyDecoder(framing)
    this.#bytesMax = bytesMax
    this.#keptMax =
      framing.kind === 'length' ? Math.min(framing.bytes, BODY_BYTES_MAX) : BODY_BYTES_MAX
  }

  evict(problem: Problem): void {
    this.#onEvict(problem)
  }

  /**
   * Consumes the body's share of `bytes`. Returns the body and the bytes behind it once it is whole or
   * known to be too large, undefined before. Throws `Http1Error` if it is malformed, `Problem` 503 if
   * memory is used up.
   */
  read(bytes: Buffer): { readonly body: Body; readonly rest: Buffer } | undefined {
    const rest = this.#decoder.decode(bytes, (part) => this.#append(part))
    if (this.#bytesRead > this.#bytesMax) {
      this.discard()
      return { body: 'tooLarge', rest: NO_BODY }
    }
    if (rest === undefined) return undefined
    this.#memory.leave(this)
    this.#memory.release(this.#buffer.length - this.#bytesKept)
    return { body: this.#buffer.subarray(0, this.#bytesKept), rest }
  }

  /** Releases the memory of a body that is not wanted any more. */
  discard(): void {
    this.#memory.leave(this)
    this.#memory.release(this.#buffer.length)
    this.#buffer = NO_BODY
    this.#bytesKept = 0
  }

  #append(part: Buffer): void {
    this.#bytesRead += part.length
    if (this.#bytesRead > this.#bytesMax) return
    const from = this.#bytesKept
    this.#bytesKept = Math.min(from + part.length, BODY_BYTES_MAX)
    if (this.#bytesKept > this.#buffer.length) this.#grow(from)
    part.copy(this.#buffer, from, 0, this.#bytesKept - from)
  }

  /** `used`: bytes that the buffer has already. */
  #grow(used: number): void {
    const bytes = Math.max(this.#bytesKept, Math.min(2 * this.#buffer.length, this.#keptMax))
    this.#memory.reserve(this, bytes - this.#buffer.length, bytes)
    const larger = Buffer.allocUnsafe(bytes)
    this.#buffer.copy(larger, 0, 0, used)
    this.#buffer = larger
  }
}
