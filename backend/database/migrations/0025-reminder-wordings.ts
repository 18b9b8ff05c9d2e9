/** The wording of reminders, by account, stage and language; without a row the default applies. */
import { transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    `create table reminder_wordings (
      account_id text not null references accounts (id),
      stage text not null check (stage in ('courtesy', 'friendly', 'reminder', 'firm', 'final')),
      language text not null,
      subject text not null,
      greeting text not null,
      opening text not null,
      opening_several text not null,
      closing text not null,
      sign_off text not null,
      updated_at text not null,
      primary key (account_id, stage, language)
    )`,
  ),
]
