/**
 * Copies a SQLite database while a backend writes to it: complete, consistent as of one instant, and
 * without deleted data. The copy gets its name only after it was checked and has reached the disk.
 */
import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { sql } from 'kysely'
import { SqliteConnection } from './connection.ts'
import { kyselyOnConnection } from './kysely.ts'

export interface Backup {
  readonly path: string
  readonly bytes: number
}

/** Both are paths; `to` must not exist yet. Throws if the copy is damaged. */
export async function backUpSqlite(from: string, to: string): Promise<Backup> {
  const path = resolve(to)
  if (existsSync(path)) throw new Error(`${to} exists already`)
  // Each run has its own incomplete file. Otherwise, it could publish what another run had just begun.
  const partial = `${path}.${randomUUID()}.partial`
  // SQLite would create a file that all users can read, but it fills an existing empty file.
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
      throw new Error(`The copy is damaged: ${first?.integrity_check ?? 'nothing was checked'}`)
    }
    // In this mode, the copy is a single file, which can be moved as it is.
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
