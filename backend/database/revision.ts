/**
 * The columns `revision` and `updated_at` of a debtor, an invoice, a payment or a message. With each change, `revision`
 * increases by one. `updated_at` increases, too, even if the clocks of the backends differ: it is the current time, but
 * at least one millisecond after the previous value.
 */
import { type Expression, type RawBuilder, sql } from 'kysely'
import { isPostgres } from './engine.ts'
import type { Transaction } from './tables.ts'

export interface NextRevision {
  readonly updated_at: RawBuilder<string>
  readonly revision: Expression<number>
}

/**
 * Returns the expressions with which an UPDATE computes both columns from their current values. `at` is the time of the
 * change by the backend's clock.
 */
export function nextRevision(tx: Transaction, at: string): NextRevision {
  const later = isPostgres(tx) ? LATER_ON_POSTGRES : LATER_ON_SQLITE
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

/** Returns the next values of both columns for a row that was read under the lock of its debtor. */
export function nextRevisionOf(
  { updated_at, revision }: { readonly updated_at: string; readonly revision: number },
  now: Date,
) {
  const at = now.toISOString()
  const later = () => new Date(Date.parse(updated_at) + 1).toISOString()
  return { updated_at: updated_at < at ? at : later(), revision: revision + 1 }
}
