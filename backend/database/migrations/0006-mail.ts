/** Mail: texts in HTML, suppressed addresses, received mail, and notices to Admins. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  'alter table accounts add column reply_to text',
  'alter table messages add column soft_bounces integer not null default 0',
  // Finds the message to which a bounce refers by the id that the mail server assigned.
  `create index messages_by_provider_id on messages (provider_message_id)
    where provider_message_id is not null`,
  `create table message_html (
    message_id text not null primary key,
    account_id text not null,
    html text not null,
    foreign key (account_id, message_id) references messages (account_id, id)
  )`,
  `create table suppressed_addresses (
    account_id text not null references accounts (id),
    address text not null,
    reason text not null check (reason in ('bounced', 'complained', 'unsubscribed')),
    detail text,
    message_id text,
    created_at text not null,
    primary key (account_id, address, reason),
    foreign key (account_id, message_id) references messages (account_id, id)
  )`,
  `create table inbound_mail (
    digest text not null primary key,
    kind text not null
      check (kind in ('bounce', 'delay', 'delivery', 'complaint', 'reply', 'auto_reply', 'unknown')),
    account_id text,
    message_id text,
    sender text,
    received_at text not null,
    foreign key (account_id, message_id) references messages (account_id, id)
  )`,
  'create index inbound_mail_by_age on inbound_mail (received_at)',
  `create table mail_outbox (
    id text not null primary key,
    account_id text not null references accounts (id),
    notice_id text not null references notices (id),
    recipient text not null,
    status text not null check (status in ('pending', 'sent', 'failed')),
    attempts integer not null,
    run_at text,
    lease text,
    last_error text,
    created_at text not null,
    updated_at text not null,
    unique (notice_id, recipient),
    check ((status = 'pending') = (run_at is not null))
  )`,
  'create index mail_outbox_due on mail_outbox (run_at) where run_at is not null',
]
