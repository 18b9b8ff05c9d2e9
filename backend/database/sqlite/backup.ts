/**
 * A copy of a SQLite database while a backend writes to it: as it was at one instant, whole, and
 * without what was deleted. It appears under its name once it was checked and has reached the disk.
 */
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { sql } from 'kysely'
import { SqliteConnection } from './connection.ts'
import { kyselyOnConnection } from './kysely.ts'

export interface Backup {
  readonly path: string
  readonly bytes: number
}

/** Both are paths; there is nothing at `to` yet. Throws where the copy is found not to be sound. */
export async function backUpSqlite(from: string, to: string): Promise<Backup> {
  const path = resolve(to)
  if (existsSync(path)) throw new Error(`${to} exists already`)
  const partial = `${path}.partial`
  rmSync(partial, { force: true })
  // SQLite would make it readable by all; one that is there and empty it fills.
  closeSync(openSync(partial, 'wx', 0o600))
  try {
    await copyInto(from, partial)
    await check(partial)
    flush(partial)
    renameSync(partial, path)
  } catch (error) {
    rmSync(partial, { force: true })
    throw error
  }
  return { path, bytes: statSync(path).size }
}

async function copyInto(from: string, to: string): Promise<void> {
  const source = await SqliteConnection.open(from, 'write')
  try {
    await source.exec(`vacuum into '${to.replaceAll("'", "''")}'`)
  } finally {
    await source.close()
  }
}

async function check(path: string): Promise<void> {
  const copy = await SqliteConnection.open(path, 'write')
  try {
    const db = kyselyOnConnection<unknown>(copy)
    const { rows } = await sql<{ integrity_check: string }>`pragma integrity_check`.execute(db)
    const broken = await sql`pragma foreign_key_check`.execute(db)
    const [first] = rows
    if (first?.integrity_check !== 'ok' || broken.rows.length > 0) {
      throw new Error(`The copy is not sound: ${first?.integrity_check ?? 'nothing was checked'}`)
    }
    // One file, that can be moved as it is.
    await copy.exec('pragma journal_mode = delete')
  } finally {
    await copy.close()
  }
}

function flush(path: string): void {
  const file = openSync(path, 'r+')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
