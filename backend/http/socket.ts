/** The Unix socket that a backend may listen on, for gateways on the same machine. */
import { chmod, lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'

/** For the backend's user and group: a gateway of another user is made a member of the group. */
const SOCKET_MODE = 0o660

/**
 * Makes way for a socket. One that a killed backend left is removed; throws where somebody listens on
 * it, or where it is something else.
 */
export async function makeWayForSocket(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (found === undefined) return
  if (!found.isSocket()) throw new Error(`BACKEND_SOCKET ${path} is there, and no socket`)
  if (await isListenedOn(path)) throw new Error(`BACKEND_SOCKET ${path} is another process's`)
  await unlink(path)
}

/** Until then only its owner may connect, as it is made. */
export async function openSocketToGroup(path: string): Promise<void> {
  await chmod(path, SOCKET_MODE)
}

function isListenedOn(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    const settle = (isListening: boolean) => {
      socket.destroy()
      resolve(isListening)
    }
    socket.once('connect', () => settle(true))
    // Refused: its process is gone. Anything else is not ours to remove.
    socket.once('error', (error: NodeJS.ErrnoException) => settle(error.code !== 'ECONNREFUSED'))
  })
}
