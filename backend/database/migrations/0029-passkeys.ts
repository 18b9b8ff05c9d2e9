/** Passkeys, and the challenges that browsers sign with them. */
import { transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    `create table passkeys (
      id text not null primary key,
      account_id text not null references accounts (id),
      user_id text not null references users (id),
      name text not null,
      credential_id text not null,
      public_key text not null,
      sign_count bigint not null check (sign_count >= 0),
      transports text not null,
      created_at text not null,
      last_used_at text
    )`,
    'create unique index passkeys_credential on passkeys (credential_id)',
    'create index passkeys_by_user on passkeys (user_id, id)',
    `create table passkey_challenges (
      challenge_hash text not null primary key,
      browser_hash text not null,
      user_id text references users (id),
      created_at text not null,
      expires_at text not null
    )`,
    'create index passkey_challenges_by_age on passkey_challenges (expires_at)',
  ),
]
