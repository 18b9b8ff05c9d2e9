/**
 * Sessions with their address, their browser and the time of the last password entry; password resets by mail.
 */
import { transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    'alter table sessions add column address text',
    'alter table sessions add column user_agent text',
    'alter table sessions add column confirmed_at text',
    `create table password_resets (
      id text not null primary key,
      email text not null,
      user_id text references users (id),
      code_hash text not null,
      created_at text not null,
      expires_at text not null,
      handled_at text,
      ended_at text
    )`,
    'create unique index password_resets_code on password_resets (code_hash)',
    'create index password_resets_unhandled on password_resets (created_at) where handled_at is null',
    'create index password_resets_by_user on password_resets (user_id)',
    'create index password_resets_by_age on password_resets (expires_at)',
  ),
]
