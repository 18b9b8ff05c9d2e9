/** Opens and closes listening TCP sockets. */
import { type AddressInfo, createServer, type ListenOptions, type Server } from 'node:net'

/** Resolves with the port. */
export function listenOn(server: Server, options: ListenOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => {
      server.off('error', reject)
      // A TCP server that listens has an address of this form.
      resolve((server.address() as AddressInfo).port)
    })
  })
}

/** Accepts no more connections; resolves when all that were accepted are closed. */
export function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
  })
}

/** Throws `EADDRINUSE` if a process listens on the port. */
export async function assertFree(port: number, host: string): Promise<void> {
  const probe = createServer()
  await listenOn(probe, { port, host })
  await close(probe)
}

/** Whether the platform cannot share a port between sockets (`SO_REUSEPORT`). */
export function isUnsupported(error: unknown): boolean {
  return error instanceof Error && 'code' in error && UNSUPPORTED.has(error.code)
}

const UNSUPPORTED = new Set<unknown>(['ENOTSUP', 'EOPNOTSUPP', 'EINVAL'])
