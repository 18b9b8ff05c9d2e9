import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Creates the directory and its missing parents, with access for their owner only. An existing directory is not
 * changed. With the option `recursive`, `mkdirSync` would never return where creating a directory fails with ENOENT, as
 * in /proc.
 */
export function createPrivateDirectory(path: string): void {
  if (isDirectory(path)) return
  createPrivateDirectory(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process may have created the directory meanwhile.
    if (!isDirectory(path)) throw error
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
