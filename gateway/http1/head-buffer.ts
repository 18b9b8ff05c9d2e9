/** Buffers the bytes of a message's head until its end, an empty line, has arrived. */

const END_OF_HEAD = '\r\n\r\n'
const EMPTY: Buffer = Buffer.alloc(0)

/** A complete head. */
export interface HeadBytes {
  /** The bytes begin with the head. */
  readonly bytes: Buffer
  /** The head in Latin-1, without the empty line at its end. */
  readonly text: string
}

export class HeadBuffer {
  #bytes = EMPTY
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
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
  }

  /** Copies the buffered bytes. Must be called before the caller reuses their memory. */
  detach(): void {
    if (this.#bytes.length > 0) this.#bytes = Buffer.from(this.#bytes)
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

  /** Removes this many bytes from the beginning. */
  drop(count: number): void {
    this.#bytes = count < this.#bytes.length ? this.#bytes.subarray(count) : EMPTY
    this.#searched = 0
  }
}
