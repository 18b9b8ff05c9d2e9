/**
 * The schema's history. Append-only: a migration that was released is never edited, the next one
 * mends it. Portable SQL; what only one database understands asks for the dialect.
 */
import { type Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import * as initial from './migrations/0001-initial.ts'
import * as settings from './migrations/0002-settings.ts'
import * as webhooks from './migrations/0003-webhooks.ts'
import * as usageReports from './migrations/0004-usage-reports.ts'

const MIGRATIONS: Record<string, Migration> = {
  '0001-initial': initial,
  '0002-settings': settings,
  '0003-webhooks': webhooks,
  '0004-usage-reports': usageReports,
}

/** Applies what is pending, all or nothing, and returns the names of what was applied. */
export async function migrate(db: Kysely<unknown>): Promise<readonly string[]> {
  const { error, results = [] } = await migrator(db).migrateToLatest()
  if (error !== undefined) {
    throw new Error(`The database cannot be migrated: ${messageOf(error)}`, { cause: error })
  }
  return results.map(({ migrationName }) => migrationName)
}

/** Migrates an empty database; throws where another's schema is not the one this code needs. */
export async function migrateIfEmpty(db: Kysely<unknown>): Promise<readonly string[]> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
  if (tables.length === 0) return migrate(db)
  const applied = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
  const names = applied.rows.map(({ name }) => name)
  const pending = Object.keys(MIGRATIONS).filter((name) => !names.includes(name))
  if (pending.length > 0) {
    throw new Error(`The database lacks ${pending.join(', ')}. Run: npm run -s cli -- migrate`)
  }
  const newer = names.filter((name) => !(name in MIGRATIONS))
  if (newer.length > 0) {
    throw new Error(`The database has ${newer.join(', ')}, unknown to this older program.`)
  }
  return []
}

function migrator(db: Kysely<unknown>): Migrator {
  return new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
