import { Problem } from '../../shared/contract/problem.ts'
import type { Database } from '../database/database.ts'

/** Whose it is: operators name records of every account by id. Throws `not_found`. */
export async function accountOf(
  { read }: Database,
  table: 'debtors' | 'invoices' | 'payments' | 'messages',
  id: string,
): Promise<string> {
  const row = await read
    .selectFrom(table)
    .select('account_id')
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) throw new Problem('not_found', `There is nothing with the id ${id}.`)
  return row.account_id
}
