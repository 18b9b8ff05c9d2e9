import type { Reader, Transaction } from '../database/database.ts'
import type { KeyErrorRow } from '../database/tables.ts'
import { sumByRowKey } from './sum-by-row-key.ts'

const DAY_MS = 86_400_000
const DAYS = 30
const TOP_MAX = 5

/** Adds to the stored counts in one statement: the caller must limit the number of rows. */
export async function addErrors(tx: Transaction, rows: readonly KeyErrorRow[]): Promise<void> {
  const counted = sumByRowKey(rows, (row) => `${row.key_id} ${row.day} ${row.code}`)
  if (counted.length === 0) return
  await tx
    .insertInto('key_errors')
    .values(counted)
    .onConflict((conflict) =>
      conflict.columns(['key_id', 'day', 'code']).doUpdateSet((set) => ({
        calls: set('key_errors.calls', '+', set.ref('excluded.calls')),
      })),
    )
    .execute()
}

export interface TopError {
  readonly code: string
  readonly calls: number
  /** The last UTC day on which the code occurred. */
  readonly lastDay: string
}

/** Returns the five most frequent codes of the last 30 days, the most frequent first. */
export async function readTopErrors(reader: Reader, keyId: string, now: Date): Promise<TopError[]> {
  const since = new Date(now.getTime() - (DAYS - 1) * DAY_MS).toISOString().slice(0, 10)
  const rows = await reader
    .selectFrom('key_errors')
    .select(({ fn }) => ['code', fn.sum<number>('calls').as('sum'), fn.max('day').as('last_day')])
    .where('key_id', '=', keyId)
    .where('day', '>=', since)
    .groupBy('code')
    .orderBy('sum', 'desc')
    .orderBy('code')
    .limit(TOP_MAX)
    .execute()
  return rows.map(({ code, sum, last_day }) => ({ code, calls: sum, lastDay: last_day }))
}
