import { type Kysely, sql } from 'kysely'
import type { CheckStep } from '../migrating/steps.ts'
import type { MigrationTarget } from '../migrating/target.ts'
import { type PrepareOptions, prepareSchema } from '../migrations.ts'
import { SqliteConnection } from './connection.ts'
import { kyselyOnConnection } from './kysely.ts'

/**
 * Applies the pending migrations over a separate connection, and returns their names. If migrations are pending but
 * `options.mayMigrate` is false, applies none and throws.
 *
 * Another process may record payments meanwhile. While an index is built, or a column with a check is added, payments
 * wait until the whole table is read, which takes a second or two for a million rows.
 */
export async function migrateFile(
  path: string,
  options: PrepareOptions,
): Promise<readonly string[]> {
  const connection = await SqliteConnection.open(path, 'write')
  try {
    return await prepareSchema(createTarget(connection), options)
  } finally {
    await connection.close()
  }
}

function createTarget(connection: SqliteConnection): MigrationTarget {
  const db = kyselyOnConnection<unknown>(connection)
  return {
    db,
    transaction: (work) => transact(connection, () => work(db)),
    async hasTable(table) {
      const { rows } = await sql`
        select 1 from sqlite_master where type = 'table' and name = ${table}
      `.execute(db)
      return rows.length > 0
    },
    replaceCheck,
    // Each step, and each batch of a backfill, runs and is recorded in one transaction, so two processes that migrate
    // at the same time need no other lock.
    exclusively: (work) => work(),
  }
}

/**
 * Replaces a check constraint without copying the table: changes the constraint in the stored schema, as the
 * documentation of ALTER TABLE describes.
 */
async function replaceCheck(tx: Kysely<unknown>, { table, from, to }: CheckStep): Promise<void> {
  const { rows } = await sql<{ schema_version: number }>`pragma schema_version`.execute(tx)
  const version = rows[0]?.schema_version
  if (version === undefined) throw new Error('SQLite has no schema_version')
  await sql.raw('pragma writable_schema = on').execute(tx)
  await sql`
    update sqlite_schema set sql = replace(sql, ${`check (${from})`}, ${`check (${to})`})
    where type = 'table' and name = ${table}
  `.execute(tx)
  // A new version makes the other connections read the schema again.
  await sql.raw(`pragma schema_version = ${version + 1}`).execute(tx)
  await sql.raw('pragma writable_schema = off').execute(tx)
  const changed = await sql`
    select 1 from sqlite_schema where name = ${table} and instr(sql, ${`check (${to})`}) > 0
  `.execute(tx)
  if (changed.rows.length !== 1) throw new Error(`${table} has no check (${from})`)
}

async function transact<T>(connection: SqliteConnection, work: () => Promise<T>): Promise<T> {
  await connection.exec('begin immediate')
  try {
    const value = await work()
    await connection.exec('commit')
    return value
  } catch (error) {
    await connection.exec('rollback').catch(() => {})
    throw error
  }
}
