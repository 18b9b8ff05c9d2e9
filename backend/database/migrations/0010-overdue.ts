/**
 * That an invoice's becoming overdue was announced, kept with the invoice and not in a table of
 * marks: so the worker finds what it has not announced yet, and a list what is overdue, by an index.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  `alter table invoices add column overdue_announced integer not null default 0
    check (overdue_announced in (0, 1))`,
  `update invoices set overdue_announced = 1
    where id in (select invoice_id from invoice_overdue_marks)`,
  // No release has looked at it.
  'drop table invoice_overdue_marks',
  'drop index invoices_owed',
  // With the due date, which decides: where a time zone was changed it may be today's again.
  `create index invoices_overdue on invoices (account_id, created_at, id, due_date)
    where status in ('open', 'partially_paid') and overdue_announced = 1`,
  // Named as a column too: a database without statistics then prefers it to the one of all due dates.
  `create index invoices_falling_due on invoices (account_id, overdue_announced, due_date)
    where status in ('open', 'partially_paid') and overdue_announced = 0`,
]
