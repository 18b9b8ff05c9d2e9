/** Opens a SQLite file. Only one backend may have the file open, beside any number of operators' commands. */
import { closeSync, existsSync, openSync, realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import { sql } from 'kysely'
import { Problem } from '../../../shared/contract/problem.ts'
import { createPrivateDirectory } from '../../../shared/process/directories.ts'
import { collectAnnouncements, Listeners } from '../announcements.ts'
import type { DatabaseOptions, OpenDatabase } from '../database.ts'
import { createLoggedProgress } from '../migrating/progress.ts'
import type { Reader, Tables } from '../tables.ts'
import { acquireBackendLock } from './backend-lock.ts'
import { SqliteConnection } from './connection.ts'
import { kyselyOnConnection, kyselyOnPool } from './kysely.ts'
import { migrateFile } from './migration.ts'
import { SqliteReaders } from './readers.ts'
import { WriteQueue } from './write-queue.ts'

/**
 * More readers would only compete for the cores (usually two) and for the threads of libuv (16 in our
 * deployments).
 */
const READERS = 4

export async function openSqlite(
  path: string,
  {
    log,
    openedBy,
    waitMsMax,
    transactionWaits,
    progress = createLoggedProgress(log),
  }: DatabaseOptions & { waitMsMax: number },
): Promise<OpenDatabase> {
  if (openedBy === 'operator') assertExists(path)
  else createDatabaseIfMissing(path)
  const lock = openedBy === 'backend' ? await lockForBackend(path) : undefined
  try {
    const migrated = await migrateFile(path, { progress, mayMigrate: openedBy !== 'operator' })
    const assertOutsideTransaction = () =>
      queue.assertOutside('Code inside a transaction must read through the transaction')
    const readers = new SqliteReaders(
      await Promise.all(Array.from({ length: READERS }, () => SqliteConnection.open(path, 'read'))),
      { assertUsable: assertOutsideTransaction },
    )
    const queue = new WriteQueue({
      open: () => SqliteConnection.open(path, 'write'),
      log,
      waitMsMax,
      transactionWaits,
      readers,
    })
    const listeners = new Listeners()
    const closeAll = async () => {
      await queue.close()
      await readers.close()
      await lock?.release()
    }
    let closing: Promise<void> | undefined
    return {
      read: kyselyOnPool<Tables>(readers),
      isConcurrent: false,
      async transaction(work, scope = {}) {
        const { value, topics } = await queue.add(async (connection) => {
          const tx = kyselyOnConnection<Tables>(connection)
          const topics = new Set<string>()
          collectAnnouncements(tx, topics)
          return { value: await work(tx), topics }
        }, scope)
        listeners.call(topics)
        return value
      },
      listen: (topic, listener) => listeners.add(topic, listener),
      migrated,
      snapshot: (work) => readSnapshot(path, work),
      truncateWriteAheadLog: () => truncateWriteAheadLog(path),
      clockFault: undefined,
      get fault() {
        return queue.fault
      },
      activity: () => queue.activity(),
      close() {
        closing ??= closeAll()
        return closing
      },
    }
  } catch (error) {
    await lock?.release()
    throw withPath(path, error)
  }
}

function assertExists(path: string): void {
  if (existsSync(path)) return
  throw new Error(
    `There is no database at ${path}. Check DATABASE_URL and DATA_DIR, or the option of this command for the database. If the database is new, start a backend first, or run: npm run -s cli -- migrate`,
  )
}

function createDatabaseIfMissing(path: string): void {
  try {
    createPrivateDirectory(dirname(path))
    createPrivateFileIfMissing(path)
  } catch (error) {
    throw new Error(
      `The database ${path} cannot be created: ${error instanceof Error ? error.message : error}. Check DATABASE_URL and DATA_DIR, or the option of this command for the database.`,
      { cause: error },
    )
  }
}

/**
 * A fault outside the program, such as a full disk, is wrapped in a `Problem`, whose text is for clients of the API.
 * Operators need the file and the cause instead.
 */
function withPath(path: string, error: unknown): unknown {
  if (!(error instanceof Problem) || !(error.cause instanceof Error)) return error
  return new Error(`The database ${path} cannot be used: ${error.cause.message}`)
}

/** While the snapshot is open, the write-ahead log cannot be emptied, and grows. */
async function readSnapshot<T>(path: string, work: (read: Reader) => Promise<T>): Promise<T> {
  const connection = await SqliteConnection.open(path, 'read')
  try {
    await connection.exec('begin')
    return await work(kyselyOnConnection<Tables>(connection))
  } finally {
    await connection.close()
  }
}

async function truncateWriteAheadLog(path: string): Promise<boolean> {
  const connection = await SqliteConnection.open(path, 'write')
  try {
    const db = kyselyOnConnection<unknown>(connection)
    const { rows } = await sql<{ busy: number }>`pragma wal_checkpoint(truncate)`.execute(db)
    return rows[0]?.busy === 0
  } finally {
    await connection.close()
  }
}

/** The path may be a symbolic link. Backends that reach the file by different paths must use the same lock. */
function resolveLinks(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    const reason = 'it is a link to a file that does not exist. Create that file first'
    throw new Error(`The database ${path} cannot be used: ${reason}`, { cause: error })
  }
}

function lockForBackend(path: string) {
  const lockPath = `${resolveLinks(path)}.lock`
  createPrivateFileIfMissing(lockPath)
  return acquireBackendLock(lockPath)
}

/**
 * SQLite itself would create a file that all users can read. Its write-ahead log gets the same mode as the file. An
 * existing file is not opened, because closing it again would release this process's locks on it.
 */
function createPrivateFileIfMissing(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
}
