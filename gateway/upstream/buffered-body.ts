/** Buffers the body of a response until it is complete, or until it has become so large that it is streamed. */
import { allocateBuffer, copyBuffer } from '../../shared/process/buffers.ts'

const EMPTY: Buffer = Buffer.alloc(0)

export class BufferedBody {
  readonly #length: number | undefined
  #parts: Buffer[] = []
  #bytes = 0

  /**
   * `length` is the length of the whole body. It must be passed only if the body will not be streamed. Without
   * `length`, the caller must join the parts at the end, which copies the whole body once more.
   */
  constructor(length?: number) {
    this.#length = length
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Appends a copy of the part. */
  append(part: Buffer): void {
    const from = this.#bytes
    this.#bytes += part.length
    if (this.#length === undefined || this.#length === part.length) {
      this.#parts.push(copyBuffer(part))
    } else {
      this.#parts[0] ??= allocateBuffer(this.#length)
      part.copy(this.#parts[0], from)
    }
  }

  /**
   * Removes and returns the appended parts. If the length was passed, they form a single part of this length. Until the
   * body is complete, the end of this part is uninitialized memory.
   */
  take(): readonly Buffer[] {
    return this.#parts.splice(0)
  }
}

export function joinParts(parts: readonly Buffer[]): Buffer {
  return parts.length > 1 ? Buffer.concat(parts) : (parts[0] ?? EMPTY)
}
