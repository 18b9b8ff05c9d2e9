/** Indexes for the pages of Settings, and counts of the rejected calls of each key by error code. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  `create index messages_waiting on messages (account_id, created_at, id)
    where status = 'awaiting_approval'`,
  `create index messages_approvals on messages (account_id, updated_at, id)
    where approval_required = 1`,
  // One row per key, day and code, since no page shows codes by the hour.
  `create table key_errors (
    key_id text not null references api_keys (id),
    day text not null,
    code text not null,
    calls bigint not null,
    primary key (key_id, day, code)
  )`,
  'create index key_errors_by_age on key_errors (day)',
]
