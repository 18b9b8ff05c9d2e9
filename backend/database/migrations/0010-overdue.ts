/**
 * Records in the invoice itself, instead of a separate table, that an event has announced it as overdue. With
 * indexes on this column, the worker finds unannounced invoices and a list finds overdue invoices.
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
  // Contains the due date, because after a change of the time zone an announced invoice may no longer be
  // overdue.
  `create index invoices_overdue on invoices (account_id, created_at, id, due_date)
    where status in ('open', 'partially_paid') and overdue_announced = 1`,
  // The column of the condition is indexed too, so that a database without statistics prefers this index to
  // the index of all due dates.
  `create index invoices_falling_due on invoices (account_id, overdue_announced, due_date)
    where status in ('open', 'partially_paid') and overdue_announced = 0`,
]
