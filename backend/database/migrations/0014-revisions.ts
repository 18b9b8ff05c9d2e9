/** How often each object was changed, so that copies of it keep the newest. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
}

/** With a constant as default no row is written, however many there are. */
const STATEMENTS = ['debtors', 'invoices', 'payments', 'messages'].map(
  (table) => `alter table ${table} add column revision bigint not null default 1`,
)
