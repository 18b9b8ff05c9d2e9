/**
 * Creates the file of a backup or an export. The file gets its name only once it is complete and on the disk: until
 * then, its name ends with `.partial`.
 */
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { isOrphaned } from '../background/leases.ts'

/** The suffixes of a database and of the files that SQLite may create beside it. */
const SUFFIXES = ['', '-journal', '-wal', '-shm']

/**
 * The end of the name of an incomplete file, e.g. `.4711@host.<uuid>.partial`. It identifies the process that writes
 * the file, except in the names of files that earlier versions wrote.
 */
const INCOMPLETE =
  /\.(?:(?<pid>\d+)@(?<host>.+)\.)?[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\.partial$/

/**
 * A file that was not written to for this time is abandoned: a process that creates a file writes all the time, except
 * while it checks a backup. If a check took longer than this, another process could remove the file of the backup, and
 * the backup would fail.
 */
const ABANDONED_MS = 12 * 3_600_000

/**
 * First removes the incomplete files that killed processes have left in the same directory, and reports them to
 * `stderr`. Then creates the file `path`, and resolves with the number of its bytes: `write` receives the path of an
 * empty file that only its owner can read, and fills it; then this file gets the name `path`. If `write` throws, or
 * SIGINT, SIGTERM or SIGHUP ends the process, no file remains.
 */
export async function createFile(
  path: string,
  stderr: Writable,
  write: (incomplete: string) => Promise<void>,
): Promise<number> {
  if (existsSync(path)) throw new Error(`${path} already exists. Name a file that does not exist.`)
  // The name is unique. With a common name, one run could rename a file that another run is still writing.
  const incomplete = `${path}.${process.pid}@${hostname()}.${randomUUID()}.partial`
  removeAbandoned(dirname(path), stderr)
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

function removeAbandoned(directory: string, stderr: Writable): void {
  for (const path of listAbandoned(directory)) {
    try {
      remove(path)
      stderr.write(`Removed ${path}, which a killed command had left incomplete.\n`)
    } catch (error) {
      // The file may belong to another user. The new file does not depend on it.
      stderr.write(`${path} was left by a killed command, and cannot be removed: ${error}\n`)
    }
  }
}

function listAbandoned(directory: string): string[] {
  return namesIn(directory).flatMap((name) => {
    const writer = INCOMPLETE.exec(name)
    const path = join(directory, name)
    return writer !== null && isAbandoned(path, writer.groups) ? [path] : []
  })
}

/**
 * Returns no names if the directory cannot be read. If the new file cannot be created in the directory either, the
 * error of its creation says why.
 */
function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function isAbandoned(path: string, { pid, host }: Partial<Record<string, string>> = {}): boolean {
  if (pid !== undefined && host !== undefined && isOrphaned(`${host}:${pid}`)) return true
  const modifiedAtMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs
  return modifiedAtMs !== undefined && modifiedAtMs < Date.now() - ABANDONED_MS
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
