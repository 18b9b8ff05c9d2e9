/** Counts the calls of a key by operation. Calls that a gateway rejects are not included. */
import type { KeyOperationRow, Reader, Transaction } from '../database/tables.ts'

const HOURS = 24
const HOUR_MS = 3_600_000

export function rowKeyOfOperation({ key_id, hour, operation }: KeyOperationRow): string {
  return `${key_id} ${hour} ${operation}`
}

/**
 * Adds to the stored counts in one statement: the caller must limit the number of rows. No two rows may have the same
 * `rowKeyOfOperation`, because PostgreSQL rejects a statement that updates a row twice. The rows are sorted, so that
 * two concurrent transactions do not deadlock.
 */
export async function addOperations(
  tx: Transaction,
  rows: readonly KeyOperationRow[],
): Promise<void> {
  if (rows.length === 0) return
  await tx
    .insertInto('key_operations')
    .values(rows.toSorted((a, b) => (rowKeyOfOperation(a) < rowKeyOfOperation(b) ? -1 : 1)))
    .onConflict((conflict) =>
      conflict.columns(['key_id', 'hour', 'operation']).doUpdateSet((set) => ({
        calls: set('key_operations.calls', '+', set.ref('excluded.calls')),
        errors: set('key_operations.errors', '+', set.ref('excluded.errors')),
      })),
    )
    .execute()
}

export interface OperationCalls {
  /** The operationId of the contract. */
  readonly operation: string
  readonly calls: number
  /** Responses with 4xx or 5xx. */
  readonly errors: number
}

/**
 * Returns the operations that the key has called in the current UTC hour and the 23 hours before it, the most
 * frequent first.
 */
export async function readOperations(
  reader: Reader,
  keyId: string,
  now: Date,
): Promise<OperationCalls[]> {
  const since = new Date(now.getTime() - (HOURS - 1) * HOUR_MS).toISOString()
  const rows = await reader
    .selectFrom('key_operations')
    .select(({ fn }) => [
      'operation',
      fn.sum<number>('calls').as('sum'),
      fn.sum<number>('errors').as('error_sum'),
    ])
    .where('key_id', '=', keyId)
    .where('hour', '>=', since.slice(0, 'YYYY-MM-DDTHH'.length))
    .groupBy('operation')
    .orderBy('sum', 'desc')
    .orderBy('operation')
    .execute()
  return rows.map(({ operation, sum, error_sum }) => ({ operation, calls: sum, errors: error_sum }))
}
