/**
 * Records in the invoice, instead of a separate table, that its becoming overdue was announced. The worker
 * then finds unannounced invoices, and a list finds overdue ones, by an index.
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
  // No release has read this table.
  'drop table invoice_overdue_marks',
  'drop index invoices_owed',
  // Contains the due date, which decides: after a change of the time zone the due date may be today again.
  `create index invoices_overdue on invoices (account_id, created_at, id, due_date)
    where status in ('open', 'partially_paid') and overdue_announced = 1`,
  // The condition's column is also an indexed column: without statistics, a database then prefers this
  // index to the one of all due dates.
  `create index invoices_falling_due on invoices (account_id, overdue_announced, due_date)
    where status in ('open', 'partially_paid') and overdue_announced = 0`,
]
