/**
 * The browsers in which people have logged in, so that a login in another browser is reported to them by mail.
 */
import { transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    `create table known_browsers (
      token_hash text not null,
      user_id text not null references users (id),
      account_id text not null references accounts (id),
      created_at text not null,
      last_login_at text not null,
      primary key (token_hash, user_id)
    )`,
    'create index known_browsers_by_user on known_browsers (user_id, created_at)',
    'create index known_browsers_by_age on known_browsers (last_login_at)',
  ),
]
