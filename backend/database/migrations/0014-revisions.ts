/**
 * Numbers the versions of each object, so that a client that copies objects can tell which version is the
 * newest.
 */
import { transaction } from '../migrating/steps.ts'

/**
 * With a constant default, no row is rewritten. Each table is altered in its own transaction: a transaction
 * that waits for one table while it has locked another could deadlock with payments.
 */
export const steps = ['debtors', 'invoices', 'payments', 'messages'].map((table) =>
  transaction(`alter table ${table} add column revision bigint not null default 1`),
)
