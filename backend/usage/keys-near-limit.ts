import { sql } from 'kysely'
import type { Reader } from '../database/tables.ts'

export interface KeyNearLimit {
  readonly id: string
  readonly name: string
  /** Calls in the current window. */
  readonly used: number
  readonly limit: number
  /** When the current window ends. */
  readonly endsAt: string
}

/** A key is near its limit if it has used at least this percentage of it. */
const NEAR_LIMIT_PERCENT = 80

/**
 * Returns the keys that are not revoked, and are near or at the limit of their current window. The key that has used
 * the largest part of its limit is first.
 */
export async function listKeysNearLimit(
  reader: Reader,
  accountId: string,
  now: Date,
  keysMax: number,
): Promise<KeyNearLimit[]> {
  const rows = await reader
    .selectFrom('api_keys')
    .innerJoin('key_windows', 'key_windows.key_id', 'api_keys.id')
    .select(['api_keys.id', 'api_keys.name', 'api_keys.rate_limit', 'key_windows.used'])
    .select('key_windows.ends_at')
    .where('api_keys.account_id', '=', accountId)
    .where('api_keys.revoked_at', 'is', null)
    .where('key_windows.ends_at', '>', now.toISOString())
    // The cast is for PostgreSQL, where the product of two integers of 32 bits must not exceed 32 bits.
    .where(
      sql<boolean>`key_windows.used * 100 >= cast(api_keys.rate_limit as bigint) * ${sql.lit(NEAR_LIMIT_PERCENT)}`,
    )
    .orderBy(sql`key_windows.used * 1.0 / api_keys.rate_limit`, 'desc')
    .orderBy('api_keys.id')
    .limit(keysMax)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    used: Number(row.used),
    limit: Number(row.rate_limit),
    endsAt: row.ends_at,
  }))
}
