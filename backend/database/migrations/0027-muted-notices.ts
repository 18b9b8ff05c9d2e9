/** The notices that a person does not want by mail; without a row they are mailed. */
import { transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    `create table muted_notices (
      account_id text not null references accounts (id),
      user_id text not null references users (id),
      kind text not null,
      created_at text not null,
      primary key (user_id, kind)
    )`,
  ),
]
