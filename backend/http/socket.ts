/** The Unix socket that a backend may listen on, for gateways on the same machine. */
import { chmod, lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'

/** Only the backend's user and group may connect, so a gateway must run with the same user or group. */
const SOCKET_MODE = 0o660

/**
 * Removes the socket of a backend that was killed. Throws if a process listens on it or may listen on it, or if the
 * path is not a socket.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (found === undefined) return
  if (!found.isSocket()) throw new Error(`BACKEND_SOCKET ${path} exists and is not a socket`)
  await requireNoListener(path)
  await unlink(path)
}

/** Lets the group of a new socket connect. With the usual umask (022), only the socket's owner could connect. */
export async function openSocketToGroup(path: string): Promise<void> {
  await chmod(path, SOCKET_MODE)
}

/**
 * Resolves if a connection is refused, which shows that no process listens anymore. Rejects otherwise: after any other
 * error, a process may be listening.
 */
function requireNoListener(path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      reject(new Error(`BACKEND_SOCKET ${path} is in use by another process`))
    })
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') resolve()
      else {
        const cause = `connecting to it failed: ${error.message}`
        reject(new Error(`BACKEND_SOCKET ${path} exists, but ${cause}`, { cause: error }))
      }
    })
  })
}
