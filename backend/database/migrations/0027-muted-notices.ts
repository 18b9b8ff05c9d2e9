/** The kinds of notices that a user does not want by mail. A kind without a row is mailed. */
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
