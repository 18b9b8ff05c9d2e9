/** By which codes calls of a key were refused, or failed: what to look at when an integration is ill. */
import { inBatches } from '../background/batches.ts'
import type { Reader, Transaction } from '../database/database.ts'
import type { KeyErrorRow } from '../database/tables.ts'
import { summed } from './counted-rows.ts'

const DAY_MS = 86_400_000
const DAYS = 30
const TOP_MAX = 5

/** Adds to what is counted already. In one order, so that two at once do not lock each other out. */
export async function addErrors(tx: Transaction, rows: readonly KeyErrorRow[]): Promise<void> {
  const counted = summed(rows, (row) => `${row.key_id} ${row.day} ${row.code}`)
  await inBatches(counted, (batch) =>
    tx
      .insertInto('key_errors')
      .values(batch)
      .onConflict((conflict) =>
        conflict.columns(['key_id', 'day', 'code']).doUpdateSet((set) => ({
          calls: set('key_errors.calls', '+', set.ref('excluded.calls')),
        })),
      )
      .execute(),
  )
}

export interface TopError {
  readonly code: string
  readonly calls: number
  /** UTC, the last day on which it occurred. */
  readonly lastDay: string
}

/** Of the last 30 days, the commonest first. */
export async function readTopErrors(reader: Reader, keyId: string, now: Date): Promise<TopError[]> {
  const since = new Date(now.getTime() - (DAYS - 1) * DAY_MS).toISOString().slice(0, 10)
  const rows = await reader
    .selectFrom('key_errors')
    .select(({ fn }) => [
      'code',
      fn.sum<number | string>('calls').as('sum'),
      fn.max('day').as('last_day'),
    ])
    .where('key_id', '=', keyId)
    .where('day', '>=', since)
    .groupBy('code')
    .orderBy('sum', 'desc')
    .orderBy('code')
    .limit(TOP_MAX)
    .execute()
  // Sums come back as text from databases that keep them exact beyond 64 bits.
  return rows.map(({ code, sum, last_day }) => ({ code, calls: Number(sum), lastDay: last_day }))
}
