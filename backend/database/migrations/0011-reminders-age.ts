/**
 * The time at which a reminder was planned, so that reminders can be deleted long after their outcome was
 * decided.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  `alter table reminders add column planned_at text not null default ''`,
  `update reminders set planned_at =
    (select created_at from messages where messages.id = reminders.message_id)`,
  'create index reminders_decided on reminders (planned_at) where run_at is null',
]
