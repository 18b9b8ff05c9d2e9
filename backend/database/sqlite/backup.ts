/**
 * Copies a SQLite database, even while a backend writes to it. The copy is complete and consistent as of one instant,
 * and contains no remains of deleted data.
 */
import { sql } from 'kysely'
import { SqliteConnection } from './connection.ts'
import { kyselyOnConnection } from './kysely.ts'

/** Copies the database at the path `from` into the empty file at the path `to`, and checks the copy. */
export async function backUpSqlite(from: string, to: string): Promise<void> {
  await copyInto(from, to)
  await checkCopy(to)
}

async function copyInto(from: string, to: string): Promise<void> {
  // SQLite rejects `vacuum into` on a connection that may only read.
  const source = await SqliteConnection.open(from, 'write')
  try {
    await source.exec(`vacuum into '${to.replaceAll("'", "''")}'`)
  } finally {
    await source.close()
  }
}

/** Throws if the copy is damaged or has no tables of this service. Otherwise, makes the copy a single file. */
async function checkCopy(path: string): Promise<void> {
  const copy = await SqliteConnection.open(path, 'write')
  try {
    const db = kyselyOnConnection<unknown>(copy)
    const { rows: findings } = await sql<{
      integrity_check: string
    }>`pragma integrity_check`.execute(db)
    const { rows: brokenReferences } = await sql`pragma foreign_key_check`.execute(db)
    const [first] = findings
    if (first?.integrity_check !== 'ok') {
      throw new Error(`The copy is damaged: ${first?.integrity_check ?? 'nothing was checked'}`)
    }
    const { length } = brokenReferences
    if (length > 0) {
      const rows = length === 1 ? '1 row refers' : `${length} rows refer`
      throw new Error(`The copy is damaged: ${rows} to missing rows`)
    }
    const { rows: tables } = await sql`
      select 1 from sqlite_master where type = 'table' and name = 'accounts'
    `.execute(db)
    if (tables.length === 0) {
      throw new Error(
        'The database does not contain the tables of this service. Check DATABASE_URL and DATA_DIR, or the option of this command for the database.',
      )
    }
    // The connection has switched the copy to WAL, which uses several files.
    await copy.exec('pragma journal_mode = delete')
  } finally {
    await copy.close()
  }
}
