/** How many files and sockets the process may have open. */
import { readFileSync } from 'node:fs'

/** Node raises the limit to the hard one at its start. `Infinity` where the system does not say. */
export function openFilesMax(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
