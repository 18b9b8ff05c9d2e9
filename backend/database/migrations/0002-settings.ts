/** Tables of the Settings pages: sessions, attempts to enter a password, invitations, usage of keys. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  `create table sessions (
    token_hash text not null primary key,
    user_id text not null references users (id),
    role text not null check (role in ('admin', 'member')),
    flash text,
    created_at text not null,
    last_seen_at text not null,
    expires_at text not null
  )`,
  'create index sessions_by_user on sessions (user_id)',
  'create index sessions_by_age on sessions (expires_at)',
  `create table login_guesses (
    subject text not null primary key,
    guesses integer not null,
    window_ends_at text not null,
    blocked_until text not null
  )`,
  'create index login_guesses_by_age on login_guesses (window_ends_at)',
  `create table invitations (
    id text not null primary key,
    account_id text not null references accounts (id),
    email text not null,
    role text not null check (role in ('admin', 'member')),
    code_hash text not null unique,
    invited_by text not null,
    created_at text not null,
    expires_at text not null,
    ended_at text
  )`,
  'create index invitations_by_account on invitations (account_id, created_at, id)',
  `create table key_submissions (
    submission text not null primary key,
    account_id text not null references accounts (id),
    key_id text not null references api_keys (id),
    created_at text not null
  )`,
  `create table key_usage (
    key_id text not null references api_keys (id),
    hour text not null,
    status_class integer not null check (status_class between 2 and 5),
    calls bigint not null check (calls > 0),
    primary key (key_id, hour, status_class)
  )`,
]
