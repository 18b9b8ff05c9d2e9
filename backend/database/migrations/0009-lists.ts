/**
 * Lists by a state or a currency, in the order of creation: without these a page of what is rare was
 * found by a walk through the whole account.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  'create index debtors_by_status on debtors (account_id, status, created_at, id)',
  'create index invoices_by_status on invoices (account_id, status, created_at, id)',
  'create index invoices_by_currency on invoices (account_id, currency, created_at, id)',
  // With the due date, so that what is not due yet is passed over without reading it.
  `create index invoices_owed on invoices (account_id, created_at, id, due_date)
    where status in ('open', 'partially_paid')`,
  'create index payments_by_currency on payments (account_id, currency, created_at, id)',
  'create index messages_by_status on messages (account_id, status, created_at, id)',
  'create index messages_by_stage on messages (account_id, stage, created_at, id)',
]
