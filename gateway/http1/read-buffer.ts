/**
 * One buffer that all connections read into, one at a time. With a buffer for each read, as streams
 * have them, the memory to be allocated costs more than the reading.
 */
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net'

const BUFFER = Buffer.alloc(64 * 1024)

/** For `node:net`. The bytes that come are `read`'s until it returns; then they are others'. */
export function readInto(read: (socket: Socket, bytes: Buffer) => void): OnReadOpts {
  return {
    buffer: BUFFER,
    callback(this: Socket, length: number) {
      read(this, BUFFER.subarray(0, length))
      return true
    },
  }
}

/**
 * The same for a socket that a server accepted, paused; the bytes are `read`'s for good. `node:net` does
 * not offer it, so another socket takes over the handle. Where Node keeps that in another way, or the
 * socket speaks TLS, it is read as the stream it is.
 */
export function readAccepted(accepted: Socket, read: (bytes: Buffer) => void): Socket {
  const handle: unknown = Reflect.get(accepted, '_handle')
  const takesBuffer = Reflect.has(Object(handle), 'useUserBuffer')
  if ('encrypted' in accepted || !takesBuffer) return accepted.on('data', read).resume()
  const options: SocketConstructorOpts = {
    allowHalfOpen: accepted.allowHalfOpen,
    onread: readInto((_, bytes) => read(Buffer.from(bytes))),
  }
  Reflect.set(options, 'handle', handle)
  Reflect.set(accepted, '_handle', null)
  // The server counts the one that it accepted.
  return new Socket(options).on('close', () => accepted.destroy()).resume()
}
