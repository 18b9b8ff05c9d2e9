import { readFileSync } from 'node:fs'

/**
 * Returns the soft limit on open files, or `Infinity` if there is none or the system does not report it. The soft limit
 * is usually as high as the hard limit, because Node raises it when it starts.
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
