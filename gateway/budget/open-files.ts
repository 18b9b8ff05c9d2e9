import { openFilesMax } from '../../shared/process/open-files.ts'

/** The number of files and sockets that the process needs besides its connections to clients and backends. */
const OWN_FILES = 200
/** Clients may always open this many connections, so that they are served even if very few files may be open. */
const CONNECTIONS_MIN = 10

/** Returns how many connections clients may open if the gateway opens up to `backendConnections` to backends. */
export function clientConnectionsWithinFileLimit(backendConnections: number): number {
  return Math.max(CONNECTIONS_MIN, openFilesMax() - OWN_FILES - backendConnections)
}
