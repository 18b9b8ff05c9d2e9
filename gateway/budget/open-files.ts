/** How many files and sockets the process may have open. */
import { readFileSync } from 'node:fs'

/**
 * Returns the soft limit, which Node raises to the hard limit when it starts; `Infinity` if the system does
 * not report it.
 */
export function openFilesMax(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
