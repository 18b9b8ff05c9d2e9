/**
 * The time since which an invoice is disputed. It is kept while the invoice is paid, because the payment may be
 * reversed.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  'alter table invoices add column disputed_at text',
  `update invoices set disputed_at = updated_at where chasing_blocked_reason = 'disputed'`,
]
