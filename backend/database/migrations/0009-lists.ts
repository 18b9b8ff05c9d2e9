/**
 * Indexes for lists that are filtered by status, currency or stage and sorted by creation. Without these indexes,
 * finding a few matching rows would require a scan of the whole account.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  'create index debtors_by_status on debtors (account_id, status, created_at, id)',
  'create index invoices_by_status on invoices (account_id, status, created_at, id)',
  'create index invoices_by_currency on invoices (account_id, currency, created_at, id)',
  // Contains the due date, so that invoices that are not due yet are skipped without reading them.
  `create index invoices_owed on invoices (account_id, created_at, id, due_date)
    where status in ('open', 'partially_paid')`,
  'create index payments_by_currency on payments (account_id, currency, created_at, id)',
  'create index messages_by_status on messages (account_id, status, created_at, id)',
  'create index messages_by_stage on messages (account_id, stage, created_at, id)',
]
