import { Socket, type SocketConstructorOpts } from 'node:net'
import { copyBuffer } from '../../shared/process/buffers.ts'

/** The bytes of each read are copied from this buffer before the next read of any socket. */
const BUFFER = Buffer.alloc(64 * 1024)
/**
 * After this many bytes have been read from one socket, the other sockets are read. The number is the size of the
 * largest body of a call. Without this limit, libuv would read up to 2 MB from one socket at a time.
 */
const BYTES_PER_TURN = 256 * 1024

/**
 * Reads an accepted socket, which must be paused (`pauseOnConnect`) or a TLS socket. Returns the socket to use from
 * then on. If a socket is read as a stream, Node allocates 64 KiB for each read, and a call takes about 5 % more CPU
 * time (`npm run bench -- gateway --against DIRECTORY`). `node:net` offers `onread` only for sockets that it connects,
 * so a second socket takes over the handle of the first. The handle is private to Node: if a version of Node has a
 * different handle, every socket is read as a stream. A TLS socket always is.
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

/** Returns a listener that passes bytes to `read`, and pauses the socket for one turn after `BYTES_PER_TURN` bytes. */
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
