/**
 * Creates the file of a backup or an export. The file gets its name only once it is complete and on the disk: until then,
 * its name ends with `.partial`.
 */
import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from 'node:fs'

/** The suffixes of a database and of the files that SQLite may create beside it. */
const SUFFIXES = ['', '-journal', '-wal', '-shm']

/**
 * `write` receives the path of an empty file that only its owner can read, and fills it. Resolves with the number of
 * bytes. If `write` throws, or SIGINT, SIGTERM or SIGHUP ends the process, no file remains.
 */
export async function createFile(
  path: string,
  write: (incomplete: string) => Promise<void>,
): Promise<number> {
  if (existsSync(path)) throw new Error(`${path} already exists. Name a file that does not exist.`)
  // The name is unique. With a common name, one run could rename a file that another run is still writing.
  const incomplete = `${path}.${randomUUID()}.partial`
  const stopListening = removeOnSignal(incomplete)
  try {
    closeSync(openSync(incomplete, 'wx', 0o600))
    await write(incomplete)
    flush(incomplete)
    const { size } = statSync(incomplete)
    renameSync(incomplete, path)
    return size
  } catch (error) {
    remove(incomplete)
    throw error
  } finally {
    stopListening()
  }
}

/** Removes the file if a signal ends the process, until the returned function is called. */
function removeOnSignal(path: string): () => void {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  function onSignal(signal: NodeJS.Signals): void {
    remove(path)
    stopListening()
    process.kill(process.pid, signal)
  }
  function stopListening(): void {
    for (const signal of signals) process.off(signal, onSignal)
  }
  for (const signal of signals) process.on(signal, onSignal)
  return stopListening
}

function remove(path: string): void {
  for (const suffix of SUFFIXES) rmSync(path + suffix, { force: true })
}

function flush(path: string): void {
  const file = openSync(path, 'r+')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
