/** Creates the directories that settings name. */
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Creates the directory, which only its owner can use, and its missing parents. With its option `recursive`, Node's own
 * function would never return if a file system such as /proc denies that a directory can exist (ENOENT).
 */
export function createPrivateDirectory(path: string): void {
  if (isDirectory(path)) return
  createPrivateDirectory(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process may have created it meanwhile.
    if (!isDirectory(path)) throw error
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
