/** The limit on open files, and how many connections of clients it allows. */
import { readFileSync } from 'node:fs'

/** The number of files and sockets that the process needs besides its connections to clients and backends. */
const OWN_FILES = 200
const CONNECTIONS_MIN = 10

/** Returns how many connections clients may open if the connections to backends need `reserved` files. */
export function connectionsWithinLimit(reserved: number): number {
  return Math.max(CONNECTIONS_MIN, openFilesMax() - OWN_FILES - reserved)
}

/**
 * Returns the soft limit on open files, or `Infinity` if the system does not report it. Node raises the soft
 * limit to the hard limit when it starts.
 */
function openFilesMax(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
