import { sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { Transaction } from '../database/database.ts'

/**
 * Runs `insert`, which inserts the row. Throws 409 `duplicate_external_id` if another row of the account already has
 * the same `external_id`, even if the row also violates another unique constraint: which violation is reported first
 * depends on the database. `insert` must not use a prepared statement, because its violation would end the transaction.
 */
export async function insertWithUniqueExternalId(
  tx: Transaction,
  table: 'debtors' | 'invoices' | 'payments',
  row: { readonly account_id: string; readonly external_id: string | null },
  insert: () => Promise<unknown>,
): Promise<void> {
  try {
    await insert()
  } catch (error) {
    const isUniqueViolation = error instanceof ConstraintViolation && error.kind === 'unique'
    if (!isUniqueViolation || row.external_id === null) throw error
    const { rows } = await sql<{ id: string }>`
      select id from ${sql.table(table)}
      where account_id = ${row.account_id} and external_id = ${row.external_id}
    `.execute(tx)
    const [existing] = rows
    if (existing === undefined) throw error
    throw new Problem(
      'duplicate_external_id',
      `Another of your ${table} already has this external_id: see existing_id.`,
      { members: { existing_id: existing.id }, cause: error },
    )
  }
}
