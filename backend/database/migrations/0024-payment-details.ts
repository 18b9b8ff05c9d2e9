/** How customers pay: the account's bank details and payment link for each currency. */
import { transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    `create table payment_details (
      account_id text not null references accounts (id),
      currency text not null,
      account_holder text,
      account_number text,
      bank_code text,
      bank_name text,
      payment_link text,
      updated_at text not null,
      primary key (account_id, currency)
    )`,
  ),
  transaction('alter table reminders add column payment_digest text'),
]
