/** The one way that requests and answers leave: a small body with its head, in one write. */
import type { Socket } from 'node:net'

/** Two buffers are handed over one by one; beyond this size that costs less than to copy them. */
const JOINED_BYTES_MAX = 16 * 1024

/** `head`: in Latin-1, with the empty line at its end. */
export function writeMessage(socket: Socket, head: string, body: Buffer): void {
  if (body.length <= JOINED_BYTES_MAX) {
    socket.write(body.length === 0 ? head : head + body.toString('latin1'), 'latin1')
    return
  }
  socket.cork()
  socket.write(head, 'latin1')
  socket.write(body)
  socket.uncork()
}
