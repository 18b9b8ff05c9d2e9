/**
 * One buffer that the connections of all pools (`pool.ts`) read into. Allocating a buffer for each read, as streams do,
 * costs more than the reading itself.
 */
import type { OnReadOpts, Socket } from 'node:net'

/** As large as the buffers that Node would otherwise allocate. */
const BUFFER = Buffer.alloc(64 * 1024)

/** Returns the `onread` option of `node:net`. The bytes are valid only until `onBytes` returns. */
export function readIntoSharedBuffer(onBytes: (socket: Socket, bytes: Buffer) => void): OnReadOpts {
  return {
    buffer: BUFFER,
    callback(this: Socket, length: number) {
      onBytes(this, BUFFER.subarray(0, length))
      // With false, Node would stop reading from the socket.
      return true
    },
  }
}
