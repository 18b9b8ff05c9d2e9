import { type AddressInfo, createServer, type ListenOptions, type Server } from 'node:net'

/** Resolves with the port. */
export function listenOn(server: Server, options: ListenOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => {
      server.off('error', reject)
      // The address of a TCP server that listens has this type.
      resolve((server.address() as AddressInfo).port)
    })
  })
}

/** Stops accepting connections. Resolves when all accepted connections are closed. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
  })
}

/**
 * Rejects if no socket can listen on the port, e.g. with `EADDRINUSE` if another process listens on it. The sockets of
 * gateways have `reusePort`, so without this check, two gateways would share a port, and neither would fail. Port 0
 * checks only that the machine has the address `host`.
 */
export async function assertPortFree(port: number, host: string): Promise<void> {
  const probe = createServer()
  await listenOn(probe, { port, host })
  await closeServer(probe)
}

/** Whether the error means that sockets cannot share a port on this platform (`SO_REUSEPORT`). */
export function isPortSharingUnsupported(error: unknown): boolean {
  return error instanceof Error && 'code' in error && UNSUPPORTED.has(error.code)
}

const UNSUPPORTED = new Set<unknown>(['ENOTSUP', 'EOPNOTSUPP', 'EINVAL'])
