import { sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { Transaction } from '../database/database.ts'

/**
 * Runs `insert`, which inserts the row. Throws 409 `duplicate_external_id` if another row already has the same
 * `external_id`.
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
    const isDuplicate =
      error instanceof ConstraintViolation && error.columns.includes(`${table}.external_id`)
    if (!isDuplicate) throw error
    const { rows } = await sql<{ id: string }>`
      select id from ${sql.table(table)}
      where account_id = ${row.account_id} and external_id = ${row.external_id}
    `.execute(tx)
    throw new Problem(
      'duplicate_external_id',
      `Another of your ${table} already has this external_id: see existing_id.`,
      { members: { existing_id: rows[0]?.id }, cause: error },
    )
  }
}
