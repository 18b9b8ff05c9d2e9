/**
 * The stamp of a change to a debtor, an invoice, a payment or a message. The UPDATE computes it from the
 * row's current values. `revision` increases by one. `updated_at` always increases, even if the clocks of
 * the backends differ: it is the current time, or one millisecond after the previous value.
 */
import { type Expression, PostgresAdapter, type RawBuilder, sql } from 'kysely'
import type { Transaction } from './tables.ts'

export interface Stamp {
  readonly updated_at: RawBuilder<string>
  readonly revision: Expression<number>
}

/** `at` is the time of the change by the backend's clock. */
export function stampOf(tx: Transaction, at: string): Stamp {
  const isPostgres = tx.getExecutor().adapter instanceof PostgresAdapter
  const later = isPostgres ? LATER_ON_POSTGRES : LATER_ON_SQLITE
  return {
    updated_at: sql<string>`case when updated_at < ${at} then ${at} else ${later} end`,
    revision: sql<number>`revision + 1`,
  }
}

const LATER_ON_SQLITE = sql`strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, '+0.001 seconds')`
const LATER_ON_POSTGRES = sql`to_char(
  updated_at::timestamptz at time zone 'UTC' + interval '1 millisecond',
  'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
)`
