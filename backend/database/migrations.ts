/**
 * The schema's history. It is append-only: a released migration is never edited; a later migration corrects it. The SQL
 * is valid for both SQLite and PostgreSQL, or the migration checks on which of the two it runs.
 */

import type { MigrationProgress } from './migrating/progress.ts'
import { type MigrationRecord, readRecords } from './migrating/record.ts'
import { applyPending, type Migrations, migrateEmpty } from './migrating/run.ts'
import type { Migration, TransactionStep } from './migrating/steps.ts'
import type { MigrationTarget } from './migrating/target.ts'
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
import * as deletedEndpoints from './migrations/0017-deleted-endpoints.ts'
import * as credits from './migrations/0018-credits.ts'
import * as keyExpiry from './migrations/0019-key-expiry.ts'
import * as lowerEmail from './migrations/0020-lower-email.ts'
import * as ledgerTotals from './migrations/0021-ledger-totals.ts'
import * as logins from './migrations/0022-logins.ts'
import * as secondFactors from './migrations/0023-second-factors.ts'
import * as paymentDetails from './migrations/0024-payment-details.ts'
import * as reminderWordings from './migrations/0025-reminder-wordings.ts'
import * as senders from './migrations/0026-senders.ts'
import * as mutedNotices from './migrations/0027-muted-notices.ts'
import * as imports from './migrations/0028-imports.ts'
import * as passkeys from './migrations/0029-passkeys.ts'
import * as knownBrowsers from './migrations/0030-known-browsers.ts'
import * as oldInvoices from './migrations/0031-old-invoices.ts'
import * as holdUntil from './migrations/0032-hold-until.ts'
import * as accountReferences from './migrations/0033-account-references.ts'
import * as archivedDebtorStandings from './migrations/0034-archived-standings.ts'
import * as auditFilters from './migrations/0035-audit-filters.ts'
import * as failedDeliveries from './migrations/0036-failed-deliveries.ts'
import * as sentMessages from './migrations/0037-sent-messages.ts'
import * as eventsOfDeliveries from './migrations/0038-events-of-deliveries.ts'
import * as ageOfNotices from './migrations/0039-age-of-notices.ts'
import * as duplicateIndex from './migrations/0040-duplicate-index.ts'
import * as auditByActorAndAction from './migrations/0041-audit-by-actor-and-action.ts'
import * as foldedSearchTerms from './migrations/0042-folded-search-terms.ts'
import * as messagesByChannel from './migrations/0043-messages-by-channel.ts'
import * as paymentsByReceipt from './migrations/0044-payments-by-receipt.ts'
import * as unfoldedSearchTerms from './migrations/0045-unfolded-search-terms.ts'
import * as webhookAttemptHours from './migrations/0046-webhook-attempt-hours.ts'

/** The migrations of this program, in the order in which they are applied. */
export const MIGRATIONS: Migrations = {
  '0001-initial': inOneTransaction(initial),
  '0002-settings': inOneTransaction(settings),
  '0003-webhooks': inOneTransaction(webhooks),
  '0004-usage-reports': inOneTransaction(usageReports),
  '0005-reminders': inOneTransaction(reminders),
  '0006-mail': inOneTransaction(mail),
  '0007-retention': inOneTransaction(retention),
  '0008-pages': inOneTransaction(pages),
  '0009-lists': inOneTransaction(lists),
  '0010-overdue': inOneTransaction(overdue),
  '0011-reminders-age': inOneTransaction(remindersAge),
  '0012-disputes': inOneTransaction(disputes),
  '0013-apply-credit': applyCredit,
  '0014-revisions': revisions,
  '0015-holds': holds,
  '0016-payment-fingerprints': paymentFingerprints,
  '0017-deleted-endpoints': deletedEndpoints,
  '0018-credits': credits,
  '0019-key-expiry': keyExpiry,
  '0020-lower-email': lowerEmail,
  '0021-ledger-totals': ledgerTotals,
  '0022-logins': logins,
  '0023-second-factors': secondFactors,
  '0024-payment-details': paymentDetails,
  '0025-reminder-wordings': reminderWordings,
  '0026-senders': senders,
  '0027-muted-notices': mutedNotices,
  '0028-imports': imports,
  '0029-passkeys': passkeys,
  '0030-known-browsers': knownBrowsers,
  '0031-old-invoices': oldInvoices,
  '0032-hold-until': holdUntil,
  '0033-account-references': accountReferences,
  '0034-archived-standings': archivedDebtorStandings,
  '0035-audit-filters': auditFilters,
  '0036-failed-deliveries': failedDeliveries,
  '0037-sent-messages': sentMessages,
  '0038-events-of-deliveries': eventsOfDeliveries,
  '0039-age-of-notices': ageOfNotices,
  '0040-duplicate-index': duplicateIndex,
  '0041-audit-by-actor-and-action': auditByActorAndAction,
  '0042-folded-search-terms': foldedSearchTerms,
  '0043-messages-by-channel': messagesByChannel,
  '0044-payments-by-receipt': paymentsByReceipt,
  '0045-unfolded-search-terms': unfoldedSearchTerms,
  '0046-webhook-attempt-hours': webhookAttemptHours,
}

/** Converts a migration that was written before migrations had steps. */
function inOneTransaction({ up }: { readonly up: TransactionStep['run'] }): Migration {
  return { steps: [{ kind: 'transaction', statements: [], run: up }] }
}

export interface PrepareOptions {
  readonly progress: MigrationProgress
  /** Whether pending migrations are applied. If not, a database that lacks migrations is rejected. */
  readonly mayMigrate: boolean
  readonly migrations?: Migrations
}

/** Migrates a database to the schema of this program; returns the names of the migrations that it applied. */
export async function prepareSchema(
  target: MigrationTarget,
  { progress, mayMigrate, migrations = MIGRATIONS }: PrepareOptions,
): Promise<readonly string[]> {
  const records = await readRecords(target)
  if (records !== undefined) {
    assertUsable(records, migrations)
    const pending = pendingOf(records, migrations)
    if (pending.length === 0) return []
    if (!mayMigrate) {
      const names = pending.join(', ')
      throw new Error(`The database lacks the migrations ${names}. Run: npm run -s cli -- migrate`)
    }
  } else if (!mayMigrate) {
    throw new Error(
      'The database does not contain the tables of this service. Check DATABASE_URL and DATA_DIR, or the option of this command for the database. If the database is new, start a backend first, or run: npm run -s cli -- migrate',
    )
  }
  return target.exclusively(async () => {
    // Another process may have migrated while this one waited.
    const current = await readRecords(target)
    if (current !== undefined) return applyPending(target, migrations, progress)
    return migrateEmpty(target, migrations)
  })
}

function pendingOf(records: readonly MigrationRecord[], migrations: Migrations): string[] {
  const complete = new Set(records.filter(({ isComplete }) => isComplete).map(({ name }) => name))
  return Object.keys(migrations).filter((name) => !complete.has(name))
}

/** A newer schema is usable, unless a migration removed columns or tables that this program needs (see `requires`). */
function assertUsable(records: readonly MigrationRecord[], migrations: Migrations): void {
  const unusable = records.filter(
    ({ name, requires }) => !(name in migrations) && requires !== null && !(requires in migrations),
  )
  if (unusable.length === 0) return
  const names = unusable.map(({ name }) => name).join(', ')
  throw new Error(
    `This version is too old for the database: it needs columns or tables that ${names} removed. Start a newer version.`,
  )
}
