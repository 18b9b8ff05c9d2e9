/** The number of changes of each object, so that copies keep the newest version. */
import { transaction } from '../migrating/steps.ts'

/**
 * With a constant as default no row is written, however many there are. Each table is altered alone: a
 * transaction that waits for one table while it has locked another could deadlock with payments.
 */
export const steps = ['debtors', 'invoices', 'payments', 'messages'].map((table) =>
  transaction(`alter table ${table} add column revision bigint not null default 1`),
)
