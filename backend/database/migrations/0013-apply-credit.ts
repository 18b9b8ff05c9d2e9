/** Whether money on account is allocated by itself, an account's choice. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  `alter table accounts add column apply_credit text not null default 'manual'
    check (apply_credit in ('manual', 'oldest_first'))`,
]
