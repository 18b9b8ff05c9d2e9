/** Buffers the beginning of a head or a line until its end has arrived, perhaps in many small packets. */

const EMPTY: Buffer = Buffer.alloc(0)
/** The spare memory that is allocated for the next bytes, as a share of the buffered bytes. */
const SPARE_SHARE = 1 / 4

export class GrowingBuffer {
  #bytes = EMPTY
  /**
   * The memory of `#bytes`, if `#extend` or `compact` has allocated it for this buffer alone. The memory after `#bytes`
   * is then free for the next bytes.
   */
  #memory: ArrayBufferLike | undefined

  get bytes(): Buffer {
    return this.#bytes
  }

  /** Appends `bytes`, which must not change while they are buffered (see `detach`). */
  push(bytes: Buffer): void {
    const before = this.#bytes
    if (before.length === 0) this.#bytes = bytes
    else {
      this.#bytes = this.#extend(before, before.length + bytes.length)
      bytes.copy(this.#bytes, before.length)
    }
  }

  /**
   * Copies the buffered bytes, unless they are in `#memory`. Must be called before the memory of pushed bytes is
   * reused.
   */
  detach(): void {
    const { length, buffer } = this.#bytes
    if (length > 0 && buffer !== this.#memory) this.#bytes = Buffer.from(this.#bytes)
  }

  /**
   * Copies the buffered bytes if they are less than half of the memory that they keep in use, e.g. of a large packet.
   */
  compact(): void {
    const { length, buffer } = this.#bytes
    if (length === 0 || buffer.byteLength <= 2 * length) return
    const copy = Buffer.allocUnsafeSlow(length)
    this.#bytes.copy(copy)
    this.#bytes = copy
    this.#memory = copy.buffer
  }

  takeAll(): Buffer {
    const bytes = this.#bytes
    this.drop(bytes.length)
    return bytes
  }

  /**
   * Removes all bytes and returns their memory, including spare memory, so that the caller can free it at once
   * (`releaseBuffer`).
   */
  clear(): Buffer {
    const { buffer } = this.#bytes
    const memory = buffer === this.#memory ? Buffer.from(buffer) : this.#bytes
    this.drop(this.#bytes.length)
    return memory
  }

  /** Removes this many bytes from the beginning. */
  drop(count: number): void {
    const isEmpty = count >= this.#bytes.length
    this.#bytes = isEmpty ? EMPTY : this.#bytes.subarray(count)
    if (isEmpty) this.#memory = undefined
  }

  /**
   * Returns a buffer of `length` bytes, which begins with the bytes of `before`. Without spare memory, a long head or
   * line that arrives in small packets would be copied with each packet.
   */
  #extend(before: Buffer, length: number): Buffer {
    const { buffer, byteOffset } = before
    const hasRoom = buffer === this.#memory && byteOffset + length <= buffer.byteLength
    if (hasRoom) return Buffer.from(buffer, byteOffset, length)
    const memory = Buffer.allocUnsafeSlow(length + Math.floor(length * SPARE_SHARE))
    before.copy(memory)
    this.#memory = memory.buffer
    return memory.subarray(0, length)
  }
}
