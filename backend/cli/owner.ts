import { Problem } from '../../shared/contract/problem.ts'
import type { Database } from '../database/database.ts'

/**
 * Returns the id of the account that a record belongs to, because operators pass only the record's id.
 * Throws `not_found`.
 */
export async function accountIdOf(
  { read }: Database,
  table: 'debtors' | 'invoices' | 'payments' | 'messages',
  id: string,
): Promise<string> {
  const row = await read
    .selectFrom(table)
    .select('account_id')
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined)
    throw new Problem('not_found', `There is no record with the id ${id} in ${table}.`)
  return row.account_id
}
