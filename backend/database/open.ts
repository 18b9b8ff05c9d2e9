/** Opens the database that `DATABASE_URL` names. */
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Logger } from '../../shared/log.ts'
import { acquireBackendLock } from './backend-lock.ts'
import type { Database } from './database.ts'
import { kyselyOnConnection, kyselyOnReaders } from './kysely-sqlite.ts'
import { migrate, migrateIfEmpty } from './migrations.ts'
import { SqliteConnection } from './sqlite-connection.ts'
import type { Tables } from './tables.ts'
import { WriteQueue } from './write-queue.ts'

/** More would only take turns at the two cores and sixteen threads of a usual machine. */
const READERS = 4

/** How long a transaction may wait for the writer; well inside the gateway's deadline of 10 s. */
const WAIT_MS_MAX = 5000

export interface DatabaseOptions {
  readonly url: string
  readonly log: Logger
  /**
   * The backend is the only one of its kind on a SQLite file, and migrates it. An operator's command
   * works beside it; it migrates an empty database and refuses one that needs migration. A migrator
   * works beside it and migrates.
   */
  readonly user: 'backend' | 'operator' | 'migrator'
  readonly waitMsMax?: number
}

export interface OpenDatabase extends Database {
  /** The migrations that opening applied. */
  readonly migrated: readonly string[]
  /** Why the last transactions were lost, e.g. a full disk; undefined once one was committed. */
  readonly fault: Error | undefined
}

export async function openDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  const { url, log, user, waitMsMax = WAIT_MS_MAX } = options
  const path = sqlitePath(url)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  createPrivately(path)
  const lock = user === 'backend' ? await lockForBackend(path) : undefined
  try {
    const migrated = await migrateFile(path, user)
    const queue = new WriteQueue({
      open: () => SqliteConnection.open(path, 'write'),
      log,
      waitMsMax,
    })
    const writer = kyselyOnConnection<Tables>(queue.connection)
    const connections = await Promise.all(
      Array.from({ length: READERS }, () => SqliteConnection.open(path, 'read')),
    )
    const read = kyselyOnReaders<Tables>(connections, () =>
      queue.assertOutside('Inside a transaction, read through it'),
    )
    const closeAll = async () => {
      await queue.close()
      await Promise.all(connections.map((connection) => connection.close()))
      await lock?.release()
    }
    let closing: Promise<void> | undefined
    return {
      read,
      transaction: (work) => queue.add(() => work(writer)),
      migrated,
      get fault() {
        return queue.fault
      },
      close() {
        closing ??= closeAll()
        return closing
      },
    }
  } catch (error) {
    await lock?.release()
    throw error
  }
}

/** Apart from the writer's queue, which is for transactions of a known schema. */
async function migrateFile(path: string, user: DatabaseOptions['user']) {
  const connection = await SqliteConnection.open(path, 'write')
  try {
    const db = kyselyOnConnection<unknown>(connection)
    return await (user === 'operator' ? migrateIfEmpty(db) : migrate(db))
  } finally {
    await connection.close()
  }
}

function lockForBackend(path: string) {
  const lockPath = `${path}.lock`
  createPrivately(lockPath)
  return acquireBackendLock(lockPath)
}

function sqlitePath(url: string): string {
  const [, path = ''] = /^sqlite:(.+)$/.exec(url) ?? []
  if (path !== '' && path !== ':memory:') return resolve(path)
  throw new Error(
    `DATABASE_URL must be sqlite:/path/to/file.db, not ${url.replace(/\/\/.*@/, '//…@')}`,
  )
}

/**
 * SQLite would create the file readable by all; its WAL takes the mode of the database. An existing
 * file is not opened: closing it again would drop the locks that this process holds on it.
 */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
}
