/** How many connections of clients the limit on open files allows. */
import { openFilesMax } from '../../shared/process/open-files.ts'

/** The number of files and sockets that the process needs besides its connections to clients and backends. */
const OWN_FILES = 200
const CONNECTIONS_MIN = 10

/** Returns how many connections clients may open if the connections to backends need `reserved` files. */
export function connectionsWithinLimit(reserved: number): number {
  return Math.max(CONNECTIONS_MIN, openFilesMax() - OWN_FILES - reserved)
}
