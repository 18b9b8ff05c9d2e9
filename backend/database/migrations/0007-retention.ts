/** An index for retention by age, and the time at which a debtor's personal data were erased. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

const STATEMENTS = [
  'create index key_usage_by_age on key_usage (hour)',
  'alter table debtors add column erased_at text',
]
