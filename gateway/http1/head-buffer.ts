/** Buffers the bytes of a message's head until its end, an empty line, has arrived. */

const END_OF_HEAD = '\r\n\r\n'
const EMPTY: Buffer = Buffer.alloc(0)
/** The share of additional memory that is allocated for the next bytes. */
const SPARE_SHARE = 1 / 4

/** A complete head. */
export interface HeadBytes {
  /** The bytes begin with the head. */
  readonly bytes: Buffer
  /** The head in Latin-1, without the empty line at its end. */
  readonly text: string
}

export class HeadBuffer {
  #bytes = EMPTY
  /** The memory of `#bytes` if this buffer has allocated it: the memory after `#bytes` is then unused. */
  #memory: ArrayBufferLike | undefined
  /**
   * The offset at which the next search begins. Without it, each new packet would cause a search of all
   * buffered bytes.
   */
  #searched = 0

  get bytes(): Buffer {
    return this.#bytes
  }

  /** The offset at which the next search for the end of the head begins. */
  get searched(): number {
    return this.#searched
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

  /** Copies the buffered bytes. Must be called before the caller reuses their memory. */
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
    this.#memory = undefined
  }

  /** Removes and returns the next head; undefined while it is incomplete or longer than `bytesMax`. */
  takeHead(bytesMax: number): HeadBytes | undefined {
    const bytes = this.#bytes
    const end = bytes.indexOf(END_OF_HEAD, this.#searched, 'latin1')
    if (end < 0 || end > bytesMax) return undefined
    this.drop(end + END_OF_HEAD.length)
    return { bytes, text: bytes.toString('latin1', 0, end) }
  }

  /** Marks the buffered bytes as searched, except the last three: the end of the head may begin there. */
  markSearched(): void {
    this.#searched = Math.max(0, this.#bytes.length - (END_OF_HEAD.length - 1))
  }

  /** Removes and returns all bytes. */
  takeAll(): Buffer {
    const bytes = this.#bytes
    this.drop(bytes.length)
    return bytes
  }

  /** Removes all bytes. Returns their memory, which is no longer used. */
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
    this.#searched = 0
  }

  /**
   * Returns a buffer of the length that begins with `before`. Memory is allocated in advance: otherwise a long head that
   * arrives in small packets would be copied, and leave garbage, with each packet.
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
