/**
 * The sender's name and the logo of an account's reminders, and the name and logo with which each text was
 * written.
 */
import { index, transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    'alter table accounts add column sender_name text',
    'alter table accounts add column logo_id text',
  ),
  transaction(
    'alter table message_html add column sender_name text',
    'alter table message_html add column logo_id text',
  ),
  transaction(
    `create table account_logos (
      account_id text not null references accounts (id),
      id text not null,
      media_type text not null check (media_type in ('image/png', 'image/jpeg')),
      width integer not null,
      height integer not null,
      content text not null,
      created_at text not null,
      primary key (account_id, id)
    )`,
  ),
  index(
    'create index message_html_logo on message_html (account_id, logo_id) where logo_id is not null',
  ),
]
