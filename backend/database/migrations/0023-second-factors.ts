/**
 * The second factor of a login: codes of an authenticator app, and recovery codes in case the app is lost.
 */
import { transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    'alter table users add column totp_secret text',
    'alter table users add column totp_enabled_at text',
    'alter table users add column totp_last_step bigint',
    'alter table sessions add column pending_until text',
    'alter table accounts add column second_factor_required_at text',
    `create table recovery_codes (
      user_id text not null references users (id),
      code_hash text not null,
      created_at text not null,
      used_at text,
      primary key (user_id, code_hash)
    )`,
  ),
]
