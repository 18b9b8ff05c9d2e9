/**
 * Prevents two backend processes from using the same SQLite database. The lock is a transaction on a small file beside
 * the database. The operating system releases the lock however the process ends. SQLite's lock on the small file is
 * RESERVED, not EXCLUSIVE, so that a rejected process can read in this file which process has the lock.
 */
import sqlite3 from 'sqlite3'

export interface BackendLock {
  release(): Promise<void>
}

/**
 * `lockPath` is the small file, which must exist. If another process has the lock, throws an error with the id of that
 * process.
 */
export async function acquireBackendLock(lockPath: string): Promise<BackendLock> {
  const handle = await new Promise<sqlite3.Database>((resolve, reject) => {
    const opened = new sqlite3.Database(lockPath, sqlite3.OPEN_READWRITE, (error) =>
      error ? reject(cannotLock(lockPath, error)) : resolve(opened),
    )
  })
  const exec = (sql: string) =>
    new Promise<void>((resolve, reject) => {
      handle.exec(sql, (error) => (error ? reject(error) : resolve()))
    })
  const release = () =>
    new Promise<void>((resolve, reject) => {
      handle.close((error) => (error ? reject(error) : resolve()))
    })
  try {
    // The journal is in memory: a transaction that is never committed then leaves no file behind.
    await exec('pragma busy_timeout = 0; pragma journal_mode = memory')
    // This transaction fails if another process has the lock. It records which process acquires the lock.
    await exec(`begin immediate; pragma user_version = ${process.pid}; commit`)
    // This transaction is the lock: it stays open.
    await exec('begin immediate')
  } catch (error) {
    const holder = isBusy(error) ? await readHolder(handle) : undefined
    await release()
    if (holder === undefined) throw cannotLock(lockPath, error)
    throw new Error(
      `Another backend process (pid ${holder}) uses this database. SQLite allows only one backend: stop the other one, or use PostgreSQL.`,
      { cause: error },
    )
  }
  return { release }
}

function readHolder(handle: sqlite3.Database): Promise<number | string> {
  return new Promise((resolve) => {
    handle.all<{ user_version: number }>('pragma user_version', (error, rows) =>
      resolve(error ? 'unknown' : (rows[0]?.user_version ?? 'unknown')),
    )
  })
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && error.errno === sqlite3.BUSY
}

function cannotLock(path: string, error: unknown): Error {
  return new Error(
    `The file ${path} cannot be locked: ${error instanceof Error ? error.message : error}`,
  )
}
