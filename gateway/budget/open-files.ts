/** How many connections of clients the limit on open files allows. */
import { openFilesMax } from '../../shared/process/open-files.ts'

/** The number of files and sockets that the process needs besides its connections to clients and backends. */
const OWN_FILES = 200
/** Even if the limit is too low for any connection, the gateway starts, and serves at least this many. */
const CONNECTIONS_MIN = 10

/** Returns how many connections clients may open if the gateway opens up to `backendConnections` to backends. */
export function clientConnectionsWithinFileLimit(backendConnections: number): number {
  return Math.max(CONNECTIONS_MIN, openFilesMax() - OWN_FILES - backendConnections)
}
