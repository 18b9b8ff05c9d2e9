/**
 * Creates the file of a backup or an export. The file gets its name only when it is complete and on the disk. Until
 * then, it is in a directory of its own, whose name ends with `.partial`.
 */
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { isOrphaned } from '../background/leases.ts'
import { isDiskFull } from '../database/sqlite/connection.ts'

/**
 * The suffixes of a database and of the files that SQLite may create beside it. Earlier versions wrote an incomplete
 * file without a directory of its own, so `remove` must also find the files beside it.
 */
const SUFFIXES = ['', '-journal', '-wal', '-shm']

/**
 * The end of the name of the directory with an incomplete file, e.g. `.4711@host.<uuid>.partial`. It identifies the
 * process that writes the file, except in the names of files that earlier versions wrote.
 */
const INCOMPLETE =
  /\.(?:(?<pid>\d+)@(?<host>.+)\.)?[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\.partial$/

/**
 * An incomplete file counts as abandoned if its process has certainly ended, or after this time without a write: the
 * process may have run on another machine, or another process may have its id now. A process that creates a file writes
 * all the time, except while it checks a backup. If a check took longer than this, another process could remove the
 * backup.
 */
const ABANDONED_MS = 12 * 3_600_000

/**
 * Creates the file `path`, and resolves with its size in bytes. `write` receives the path of another file, which is
 * empty and which only its owner can read. After `write`, this file is moved to `path`. If `write` throws, or SIGINT,
 * SIGTERM or SIGHUP ends the process, no file remains. Throws an `Error` if `path` already exists, or if the disk is
 * full. Also removes the incomplete files that killed processes have left beside `path`, and reports them to `stderr`.
 */
export async function createFile(
  path: string,
  stderr: Writable,
  write: (incomplete: string) => Promise<void>,
): Promise<number> {
  if (existsSync(path)) throw new Error(`${path} already exists. Name a file that does not exist.`)
  // The name is unique. With a common name, one run could rename a file that another run is still writing.
  const directory = path + suffixOfIncomplete()
  const incomplete = join(directory, basename(path))
  removeAbandoned(dirname(path), stderr)
  const stopListening = removeOnSignal(directory, path)
  try {
    mkdirSync(directory, { mode: 0o700 })
    closeSync(openSync(incomplete, 'wx', 0o600))
    await write(incomplete)
    flush(incomplete, 'r+')
    const { size } = statSync(incomplete)
    renameSync(incomplete, path)
    flushNames(dirname(path))
    return size
  } catch (error) {
    if (!hasNoSpace(error)) throw error
    throw new Error(
      `The disk of ${dirname(path)} has too little space. Free space, or choose another disk.`,
      { cause: error },
    )
  } finally {
    remove(directory)
    stopListening()
  }
}

function hasNoSpace(error: unknown): boolean {
  return isDiskFull(error) || (error instanceof Error && 'code' in error && error.code === 'ENOSPC')
}

function suffixOfIncomplete(): string {
  return `.${process.pid}@${hostname()}.${randomUUID()}.partial`
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

/** Returns no names if the directory cannot be read, because it may still be possible to create a file in it. */
function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function isAbandoned(path: string, { pid, host }: Partial<Record<string, string>> = {}): boolean {
  if (pid !== undefined && host !== undefined && isOrphaned(`${host}:${pid}`)) return true
  const times = [path, ...namesIn(path).map((name) => join(path, name))].flatMap(
    (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? [],
  )
  return times.length > 0 && Math.max(...times) < Date.now() - ABANDONED_MS
}

/**
 * If a signal ends the process, removes `directory` first. Returns a function that stops listening for signals. The
 * directory is renamed before it is removed: otherwise, a thread of SQLite could create another file in it.
 */
function removeOnSignal(directory: string, path: string): () => void {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  function onSignal(signal: NodeJS.Signals): void {
    const renamed = path + suffixOfIncomplete()
    renameSync(directory, renamed)
    remove(renamed)
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
  for (const suffix of SUFFIXES) rmSync(path + suffix, { force: true, recursive: true })
}

/**
 * Without this, the new file could lose its name again if the machine loses power. Errors are ignored: the file is
 * complete, but the directory may be unreadable, or on a file system that flushes no directories.
 */
function flushNames(directory: string): void {
  try {
    flush(directory, 'r')
  } catch {}
}

function flush(path: string, mode: 'r' | 'r+'): void {
  const file = openSync(path, mode)
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
