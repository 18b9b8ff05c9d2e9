/** Buffers the bytes of a message's head until its end, an empty line, has arrived. */
import { GrowingBuffer } from './growing-buffer.ts'

const END_OF_HEAD = '\r\n\r\n'

export interface HeadBytes {
  /** The head, the empty line at its end, and what has arrived after it. */
  readonly bytes: Buffer
  /** The head in Latin-1, without the empty line at its end. */
  readonly text: string
}

export class HeadBuffer extends GrowingBuffer {
  #searchedLength = 0

  /** The number of buffered bytes in which the end of the head cannot begin. The next search skips them. */
  get searchedLength(): number {
    return this.#searchedLength
  }

  /** Removes and returns the next head; undefined while it is incomplete or longer than `bytesMax`. */
  takeHead(bytesMax: number): HeadBytes | undefined {
    const { bytes } = this
    const end = bytes.indexOf(END_OF_HEAD, this.#searchedLength, 'latin1')
    if (end < 0 || end > bytesMax) return undefined
    this.drop(end + END_OF_HEAD.length)
    return { bytes, text: bytes.toString('latin1', 0, end) }
  }

  /**
   * Lets the next search skip the bytes that are buffered now. Call this only after `takeHead` has returned undefined
   * and these bytes were checked for errors. The last three bytes are not skipped, because the end of the head may
   * begin there.
   */
  markSearched(): void {
    this.#searchedLength = Math.max(0, this.bytes.length - (END_OF_HEAD.length - 1))
  }

  override drop(count: number): void {
    super.drop(count)
    this.#searchedLength = 0
  }
}
