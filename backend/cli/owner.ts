import { Problem } from '../../shared/contract/problem.ts'
import type { Database } from '../database/database.ts'

/**
 * Returns the id of the account to which a record belongs, because operators pass only the id of the record. Throws
 * `not_found` if there is no record with this id.
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
