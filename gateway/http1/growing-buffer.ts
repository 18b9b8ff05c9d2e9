/** Buffers the beginning of a head or a line until its end has arrived, perhaps in many small packets. */

const EMPTY: Buffer = Buffer.alloc(0)
/** The memory that is allocated in advance for the next bytes, as a share of the bytes that are buffered. */
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
   * Copies the buffered bytes, unless they are already in `#memory`. Must be called before the caller reuses the memory
   * of the bytes that it pushed.
   */
  detach(): void {
    const { length, buffer } = this.#bytes
    if (length > 0 && buffer !== this.#memory) this.#bytes = Buffer.from(this.#bytes)
  }

  /**
   * Copies the buffered bytes if they are less than half of the memory that they would otherwise keep in
   * use, e.g. a small part of a large packet.
   */
  compact(): void {
    const { length, buffer } = this.#bytes
    if (length === 0 || buffer.byteLength <= 2 * length) return
    const copy = Buffer.allocUnsafeSlow(length)
    this.#bytes.copy(copy)
    this.#bytes = copy
    this.#memory = copy.buffer
  }

  /** Removes and returns all bytes. */
  takeAll(): Buffer {
    const bytes = this.#bytes
    this.drop(bytes.length)
    return bytes
  }

  /**
   * Removes all bytes. Returns their memory as a buffer, including memory that was allocated in advance, so that the
   * caller can free it at once, without the garbage collector (`releaseBuffer`).
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
   * Returns a buffer of `length` bytes, which begins with the bytes of `before`. Memory is allocated in advance:
   * otherwise, a long head or line that arrives in small packets would be copied, and leave garbage, with each packet.
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
