/** Writes responses to the socket of a client, and counts the bytes that are buffered because the client is slow. */
import type { Socket } from 'node:net'
import { writeMessage } from '../http1/message-writer.ts'
import { NO_BODY } from './request-body.ts'

/**
 * If at most this many bytes of a response are buffered, the response is sent even if there is no memory for them. TLS
 * buffers each response briefly, so most responses over TLS would otherwise be aborted while the memory is used up.
 */
const SMALL_BYTES_MAX = 16 * 1024

/** The minimum average rate at which a client must receive a response that takes longer than the timeout. */
const BYTES_PER_SECOND_MIN = 32 * 1024

export interface ResponseWriterOptions {
  /**
   * How long a client may take to receive each part of a response after the part is buffered. The whole response may
   * take this long plus the time in which a client receives the flushed bytes at `BYTES_PER_SECOND_MIN`.
   */
  readonly timeoutMs: number
  /** Called when `write` or a flush has changed `bytes`. Returns false if there is no memory for the bytes. */
  onBytesChanged(): boolean
  /** Called to abort a response for which there is no memory. */
  onMemoryUsedUp(): void
}

export class ResponseWriter {
  readonly #socket: Socket
  readonly #options: ResponseWriterOptions
  #bytes = 0
  #isWriting = false
  #bufferedAt: number | undefined
  /** `performance.now()` when the last part of the response was buffered. */
  #partBufferedAt = 0
  /** The bytes of the response that were buffered and then flushed. */
  #flushedBytes = 0
  /** Called when all bytes that were written are flushed, or when the connection is closed. */
  #onFlushed: (() => void) | undefined

  constructor(socket: Socket, options: ResponseWriterOptions) {
    this.#socket = socket
    this.#options = options
  }

  /** The number of bytes of the response that are not flushed yet. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether a part of the response was written, and the response is not complete. */
  get isWriting(): boolean {
    return this.#isWriting
  }

  /** Whether a written part is not flushed yet. */
  get isFlushing(): boolean {
    return this.#onFlushed !== undefined
  }

  /** `performance.now()` when a part of the response was first buffered; undefined if all was flushed immediately. */
  get bufferedAt(): number | undefined {
    return this.#bufferedAt
  }

  /** Whether the client has not received the last part within the timeout, or receives the response too slowly. */
  isLate(now: number): boolean {
    if (!this.isFlushing) return false
    const { timeoutMs } = this.#options
    const wholeMsMax = timeoutMs + (this.#flushedBytes * 1000) / BYTES_PER_SECOND_MIN
    return now > this.#partBufferedAt + timeoutMs || now > (this.#bufferedAt ?? now) + wholeMsMax
  }

  /**
   * Writes a part of a response. Returns undefined if the part was flushed immediately, or if the connection is
   * closed; otherwise returns a promise that resolves when the part is flushed or the connection is closed.
   */
  write(head: string, body: Buffer = NO_BODY): Promise<void> | undefined {
    const socket = this.#socket
    this.#isWriting = true
    writeMessage(socket, head, body)
    const buffered = socket.writableLength
    if (buffered === 0 || socket.destroyed) return undefined
    // A callback for every write would cost time, and most writes are flushed immediately. If bytes are still buffered,
    // an empty write after them adds the callback.
    socket.write('', () => this.#onFlushed?.())
    return this.#untilFlushed(buffered)
  }

  /** Must be called when the response is complete. */
  end(): void {
    this.#isWriting = false
    this.#bufferedAt = undefined
    this.#flushedBytes = 0
  }

  /**
   * Sets `bytes` to 0 without calling `onBytesChanged`. The caller must then reset the connection, which drops the
   * bytes.
   */
  releaseBytes(): void {
    this.#bytes = 0
  }

  /** Must be called when the connection is closed. */
  close(): void {
    this.#onFlushed?.()
  }

  #untilFlushed(bytes: number): Promise<void> {
    const { onBytesChanged, onMemoryUsedUp } = this.#options
    this.#partBufferedAt = performance.now()
    this.#bufferedAt ??= this.#partBufferedAt
    this.#bytes = bytes
    if (!onBytesChanged() && bytes > SMALL_BYTES_MAX) onMemoryUsedUp()
    if (this.#socket.destroyed) {
      // Without this, the dropped bytes would be counted whenever the memory of the closed connection is updated.
      this.#bytes = 0
      onBytesChanged()
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      this.#onFlushed = () => {
        this.#onFlushed = undefined
        this.#flushedBytes += this.#bytes
        this.#bytes = 0
        onBytesChanged()
        resolve()
      }
    })
  }
}
