/** Webhooks: endpoints, the outbox of events, deliveries and their attempts; notices to Admins. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  `create table webhook_endpoints (
    id text not null primary key,
    account_id text not null references accounts (id),
    url text not null,
    description text not null,
    event_types text,
    status text not null check (status in ('enabled', 'paused', 'disabled')),
    status_since text not null,
    disabled_reason text check (disabled_reason in ('gone', 'failing')),
    failing_since text,
    hold_until text,
    secret text not null,
    old_secret text,
    old_secret_expires_at text,
    created_at text not null,
    created_by text not null,
    updated_at text not null,
    unique (account_id, id),
    check ((status = 'disabled') = (disabled_reason is not null)),
    check ((old_secret is null) = (old_secret_expires_at is null))
  )`,
  'create index webhook_endpoints_by_account on webhook_endpoints (account_id, created_at, id)',
  `create table webhook_events (
    id text not null primary key,
    account_id text not null references accounts (id),
    type text not null,
    subject_id text not null,
    body text not null,
    created_at text not null,
    unique (account_id, id)
  )`,
  'create index webhook_events_by_age on webhook_events (created_at)',
  `create table webhook_deliveries (
    id text not null primary key,
    account_id text not null,
    event_id text not null,
    endpoint_id text not null,
    event_type text not null,
    status text not null check (status in ('pending', 'sending', 'delivered', 'failed')),
    attempts integer not null,
    step integer not null,
    run_at text,
    lease text,
    last_attempt_at text,
    last_status_code integer,
    last_error text,
    created_at text not null,
    updated_at text not null,
    unique (account_id, id),
    unique (event_id, endpoint_id),
    check ((status in ('pending', 'sending')) = (run_at is not null)),
    check ((status = 'sending') = (lease is not null)),
    foreign key (account_id, event_id) references webhook_events (account_id, id),
    foreign key (account_id, endpoint_id) references webhook_endpoints (account_id, id)
  )`,
  // Contains only unfinished deliveries, because workers look for no others.
  `create index webhook_deliveries_due on webhook_deliveries (endpoint_id, run_at)
    where run_at is not null`,
  'create index webhook_deliveries_by_account on webhook_deliveries (account_id, id)',
  'create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, id)',
  'create index webhook_deliveries_by_age on webhook_deliveries (created_at)',
  `create table webhook_attempts (
    delivery_id text not null,
    number integer not null,
    account_id text not null,
    endpoint_id text not null,
    started_at text not null,
    duration_ms integer not null,
    succeeded integer not null check (succeeded in (0, 1)),
    status_code integer,
    error text,
    request_headers text not null,
    response_headers text,
    response_body text,
    primary key (delivery_id, number),
    foreign key (account_id, delivery_id) references webhook_deliveries (account_id, id)
  )`,
  'create index webhook_attempts_by_endpoint on webhook_attempts (endpoint_id, started_at)',
  `create table notices (
    id text not null primary key,
    account_id text not null references accounts (id),
    kind text not null,
    subject_id text not null,
    detail text not null,
    created_at text not null,
    mailed_at text
  )`,
  'create index notices_by_account on notices (account_id, created_at, id)',
  'create index notices_unmailed on notices (created_at) where mailed_at is null',
  `create table invoice_overdue_marks (
    invoice_id text not null,
    due_date text not null,
    account_id text not null,
    created_at text not null,
    primary key (invoice_id, due_date),
    foreign key (account_id, invoice_id) references invoices (account_id, id)
  )`,
]
