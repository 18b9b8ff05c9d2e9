/**
 * The heads of a connection's requests, byte for byte. Node's parser takes several spaces in a
 * request line for one, and RTSP for HTTP, without saying so; and behind a request that offers an
 * upgrade it drops the rest of the packet, so that the next bytes would be read from their middle.
 */
import { HEADER_BYTES_MAX, TARGET_BYTES_MAX } from './request-check.ts'

const EMPTY: Buffer = Buffer.alloc(0)
/** Beyond it the parser gives up; below it, `checkHead` says which part is too long. */
export const PARSED_BYTES_MAX = 2 * (TARGET_BYTES_MAX + HEADER_BYTES_MAX)

export interface RawHeads {
  /** Bytes, before the parser gets them. */
  add(bytes: Buffer): void
  /**
   * Takes the head that begins with this line, its end included. Returns how many bytes are known
   * behind it; undefined where no line reads exactly so.
   */
  take(requestLine: string): number | undefined
  /** Once the parser has had them. `inBody`: no head begins in what it had so far. */
  forget(inBody: boolean): void
  /** The length of the line that has begun, as far as it is known. */
  lineLength(): number
}

export function createRawHeads(): RawHeads {
  /** From the end of the last head taken. */
  let bytes = EMPTY

  return {
    add(more) {
      bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more])
    },
    take(requestLine) {
      const at = bytes.indexOf(requestLine, 0, 'latin1')
      if (at < 0) return undefined
      // The empty line may follow at once: its first half is the end of the request line.
      const end = bytes.indexOf('\r\n\r\n', at + requestLine.length - 2, 'latin1') + 4
      bytes = end < bytes.length ? bytes.subarray(end) : EMPTY
      return bytes.length
    },
    forget(inBody) {
      if (inBody) bytes = EMPTY
      else if (bytes.length > PARSED_BYTES_MAX)
        bytes = Buffer.from(bytes.subarray(-PARSED_BYTES_MAX))
    },
    lineLength() {
      const end = bytes.indexOf('\r\n', 0, 'latin1')
      return end < 0 ? bytes.length : end
    },
  }
}
