/**
 * Removes the foreign keys to `accounts` from the tables into which a payment inserts rows. To check such a key,
 * PostgreSQL locks the account's row (`for key share`). All concurrent payments of one account then write to this row,
 * and each must look up which other transactions hold a lock on it. These constraints are not needed: a payment refers
 * to a debtor of the account, and idempotency keys and events are inserted only in a transaction that has read the
 * account.
 *
 * SQLite takes no such locks, and could not remove the foreign keys without copying the tables.
 */
import { type Kysely, PostgresAdapter, sql } from 'kysely'

/**
 * For each table, the two tables that its step locks (the table itself and `accounts`), in the order in which payments
 * of the previous release lock them. In another order, the step and a payment would wait for each other. The previous
 * release inserts the idempotency key first, and this insertion locks the account.
 */
const TABLES = {
  payments: 'accounts, payments',
  idempotency_keys: 'idempotency_keys, accounts',
  webhook_events: 'accounts, webhook_events',
}

export const steps = Object.entries(TABLES).map(([table, locked]) => ({
  kind: 'transaction' as const,
  statements: [],
  async run(tx: Kysely<unknown>): Promise<void> {
    if (!(tx.getExecutor().adapter instanceof PostgresAdapter)) return
    await sql.raw(`lock table ${locked} in access exclusive mode`).execute(tx)
    const constraint = `${table}_account_id_fkey`
    await sql.raw(`alter table ${table} drop constraint if exists ${constraint}`).execute(tx)
  },
}))
