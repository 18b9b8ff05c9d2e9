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
import * as reminders from './migrations/0005-reminders.ts'
import * as mail from './migrations/0006-mail.ts'
import * as retention from './migrations/0007-retention.ts'
import * as pages from './migrations/0008-pages.ts'
import * as lists from './migrations/0009-lists.ts'
import * as overdue from './migrations/0010-overdue.ts'
import * as remindersAge from './migrations/0011-reminders-age.ts'
import * as disputes from './migrations/0012-disputes.ts'
import * as applyCredit from './migrations/0013-apply-credit.ts'
import * as revisions from './migrations/0014-revisions.ts'
import * as holds from './migrations/0015-holds.ts'
import * as paymentFingerprints from './migrations/0016-payment-fingerprints.ts'

const MIGRATIONS: Record<string, Migration> = {
  '0001-initial': initial,
  '0002-settings': settings,
  '0003-webhooks': webhooks,
  '0004-usage-reports': usageReports,
  '0005-reminders': reminders,
  '0006-mail': mail,
  '0007-retention': retention,
  '0008-pages': pages,
  '0009-lists': lists,
  '0010-overdue': overdue,
  '0011-reminders-age': remindersAge,
  '0012-disputes': disputes,
  '0013-apply-credit': applyCredit,
  '0014-revisions': revisions,
  '0015-holds': holds,
  '0016-payment-fingerprints': paymentFingerprints,
}

/** Applies what is pending, all or nothing, and returns the names of what was applied. */
export async function migrate(db: Kysely<unknown>): Promise<readonly string[]> {
  const applied = await readApplied(db)
  // Kysely's own look at a database takes longer than all the rest of a start.
  if (applied !== undefined && pendingOf(applied).length + newerOf(applied).length === 0) return []
  const { error, results = [] } = await migrator(db).migrateToLatest()
  if (error !== undefined) {
    throw new Error(`The database cannot be migrated: ${messageOf(error)}`, { cause: error })
  }
  return results.map(({ migrationName }) => migrationName)
}

/** Migrates an empty database; throws where another's schema is not the one this code needs. */
export async function migrateIfEmpty(db: Kysely<unknown>): Promise<readonly string[]> {
  const applied = await readApplied(db)
  if (applied === undefined) return migrate(db)
  const pending = pendingOf(applied)
  if (pending.length > 0) {
    throw new Error(`The database lacks ${pending.join(', ')}. Run: npm run -s cli -- migrate`)
  }
  const newer = newerOf(applied)
  if (newer.length > 0) {
    throw new Error(`The database has ${newer.join(', ')}, unknown to this older program.`)
  }
  return []
}

/** Undefined where nothing was ever migrated. */
async function readApplied(db: Kysely<unknown>): Promise<readonly string[] | undefined> {
  try {
    const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
    return rows.map(({ name }) => name)
  } catch (error) {
    if (isMissingTable(error)) return undefined
    throw error
  }
}

function pendingOf(applied: readonly string[]): string[] {
  return Object.keys(MIGRATIONS).filter((name) => !applied.includes(name))
}

function newerOf(applied: readonly string[]): string[] {
  return applied.filter((name) => !(name in MIGRATIONS))
}

function migrator(db: Kysely<unknown>): Migrator {
  return new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } })
}

/** SQLite tells it in its message, PostgreSQL in its code. */
function isMissingTable(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === '42P01' || /no such table/.test(messageOf(error))
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
