/** Why a person held an invoice back that was paid since: it is held again where the payment is reversed. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw('alter table invoices add column chasing_hold text').execute(db)
}
