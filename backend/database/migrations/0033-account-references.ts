/**
 * On PostgreSQL, the rows that a payment inserts no longer refer to the account itself. Each such reference
 * locked the account's row in each payment (`for key share`): concurrent payments of one account then write
 * to the same row, and every look-up of it reads who has locked it. A payment belongs to a debtor of its
 * account. An idempotency key and an event are inserted only in a transaction that has read the account.
 *
 * SQLite takes no such locks, and could not remove the references without copying the tables.
 */
import { type Kysely, PostgresAdapter, sql } from 'kysely'

const TABLES = ['payments', 'idempotency_keys', 'webhook_events']

export const steps = TABLES.map((table) => ({
  kind: 'transaction' as const,
  statements: [],
  async run(tx: Kysely<unknown>): Promise<void> {
    if (!(tx.getExecutor().adapter instanceof PostgresAdapter)) return
    const constraint = `${table}_account_id_fkey`
    await sql.raw(`alter table ${table} drop constraint if exists ${constraint}`).execute(tx)
  },
}))
