/** What a payment's Idempotency-Key was sent with, kept as long as the key: for ever. */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw('alter table payments add column request_fingerprint text').execute(db)
}
