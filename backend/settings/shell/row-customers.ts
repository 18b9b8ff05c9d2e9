import type { DebtorRow, Reader } from '../../database/tables.ts'
import { blockReasonOf } from './ledger-words.ts'

/** Returns the names of the rows' customers, by customer id. */
export async function readCustomerNames(
  reader: Reader,
  accountId: string,
  rows: readonly { readonly debtor_id: string }[],
): Promise<ReadonlyMap<string, string>> {
  const found = await readCustomers(reader, accountId, rows)
  return new Map(found.map(({ id, name }) => [id, name]))
}

/**
 * Returns, by customer id, the code of the reason why no reminder reaches a customer of the rows, such as
 * `debtor_paused` (see `blockReasonOf`). Customers without such a reason are not in the map.
 */
export async function readBlockReasons(
  reader: Reader,
  accountId: string,
  rows: readonly { readonly debtor_id: string }[],
): Promise<ReadonlyMap<string, string>> {
  const found = await readCustomers(reader, accountId, rows)
  return new Map(
    found.flatMap((row) => {
      const blockReason = blockReasonOf(row)
      return blockReason === undefined ? [] : [[row.id, blockReason] as const]
    }),
  )
}

export type Customer = Pick<
  DebtorRow,
  'id' | 'external_id' | 'name' | 'status' | 'chasing_status' | 'contactability_email'
>

export async function readCustomers(
  reader: Reader,
  accountId: string,
  rows: readonly { readonly debtor_id: string }[],
): Promise<Customer[]> {
  const ids = [...new Set(rows.map(({ debtor_id }) => debtor_id))]
  if (ids.length === 0) return []
  return reader
    .selectFrom('debtors')
    .select(['id', 'external_id', 'name', 'status', 'chasing_status', 'contactability_email'])
    .where('account_id', '=', accountId)
    .where('id', 'in', ids)
    .execute()
}
