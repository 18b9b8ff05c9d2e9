/**
 * Usage of keys, as gateways report it: the current window of each key, and the last applied report of each
 * gateway.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  `create table key_windows (
    key_id text not null primary key references api_keys (id),
    used bigint not null,
    rate_limit bigint not null,
    ends_at text not null
  )`,
  `create table usage_reports (
    gateway text not null primary key,
    batch bigint not null,
    reported_at text not null
  )`,
  'create index usage_reports_by_age on usage_reports (reported_at)',
]
