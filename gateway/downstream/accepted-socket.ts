/** Reads the bytes of accepted sockets into one shared buffer where Node allows it, which saves CPU time. */
import { Socket, type SocketConstructorOpts } from 'node:net'
import { copyBuffer } from '../../shared/process/buffers.ts'

/** The bytes of each read are copied from this buffer before the next read, which may be of another socket, begins. */
const BUFFER = Buffer.alloc(64 * 1024)
/**
 * After this many bytes have been read from one socket, the other sockets are read. The number is the size of the
 * largest body of a call. Without this limit, libuv would read up to 2 MB from one socket in the same turn of the event
 * loop.
 */
const BYTES_PER_TURN = 256 * 1024

/**
 * Reads an accepted socket, which must be paused (`pauseOnConnect`) or a TLS socket. Returns the socket to use from
 * then on. If the accepted socket were read as a stream, Node would allocate 64 KiB for each read, and a call would
 * take about 5 % more CPU time (`npm run bench -- gateway --against DIRECTORY`). `node:net` offers `onread` only for
 * sockets that it connects, so a second socket takes over the handle of the first. A TLS socket is always read as a
 * stream. The handle is private to Node: if a version of Node has a different handle, every socket is read as a stream.
 */
export function readAccepted(accepted: Socket, read: (bytes: Buffer) => void): Socket {
  const readPart = inTurns(read)
  const handle: unknown = Reflect.get(accepted, '_handle')
  const acceptsBuffer = Reflect.has(Object(handle), 'useUserBuffer')
  if ('encrypted' in accepted || !acceptsBuffer) return accepted.on('data', readPart).resume()
  const options: SocketConstructorOpts = {
    allowHalfOpen: accepted.allowHalfOpen,
    onread: {
      buffer: BUFFER,
      callback(this: Socket, length: number) {
        readPart.call(this, copyBuffer(BUFFER.subarray(0, length)))
        return true
      },
    },
  }
  Reflect.set(options, 'handle', handle)
  Reflect.set(accepted, '_handle', null)
  // The server counts the socket that it accepted, which must therefore be closed too.
  return new Socket(options).on('close', () => accepted.destroy()).resume()
}

/**
 * Returns a listener that passes the bytes of a socket to `read`. After `BYTES_PER_TURN` bytes, the listener pauses the
 * socket until the next turn of the event loop.
 */
function inTurns(read: (bytes: Buffer) => void) {
  let bytesSincePause = 0
  return function readPart(this: Socket, bytes: Buffer): void {
    bytesSincePause += bytes.length
    read(bytes)
    // A socket that `read` has paused must stay paused until its reader resumes it.
    if (bytesSincePause < BYTES_PER_TURN || this.isPaused()) return
    bytesSincePause = 0
    this.pause()
    setImmediate(() => this.resume())
  }
}
