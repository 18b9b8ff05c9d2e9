/** The Unix socket that a backend may listen on, for gateways on the same machine. */
import { chmod, lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'

/** The backend's user and group may connect: the user of a gateway must be in that group. */
const SOCKET_MODE = 0o660

/**
 * Removes the socket of a backend that was killed. Throws if a process listens on it, or if the path is not
 * a socket.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (found === undefined) return
  if (!found.isSocket()) throw new Error(`BACKEND_SOCKET ${path} exists and is not a socket`)
  if (await mayBeListenedOn(path))
    throw new Error(`BACKEND_SOCKET ${path} is in use by another process`)
  await unlink(path)
}

/** Lets the group connect as well, because a new socket accepts its owner only. */
export async function openSocketToGroup(path: string): Promise<void> {
  await chmod(path, SOCKET_MODE)
}

function mayBeListenedOn(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    const finish = (mayBeListening: boolean) => {
      socket.destroy()
      resolve(mayBeListening)
    }
    socket.once('connect', () => finish(true))
    // A refused connection shows that no process listens anymore. After any other error, a process may be listening.
    socket.once('error', (error: NodeJS.ErrnoException) => finish(error.code !== 'ECONNREFUSED'))
  })
}
