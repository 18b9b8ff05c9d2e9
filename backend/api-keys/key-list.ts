import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import type { ApiKeyRow, Reader } from '../database/tables.ts'

/** `ended` means expired or revoked. */
export const KEY_FILTERS = ['active', 'expired', 'revoked', 'ended'] as const

export type KeyFilter = (typeof KEY_FILTERS)[number]

export interface KeyListQuery {
  /** Undefined lists all keys. */
  readonly status: KeyFilter | undefined
  /** The id of the last key of the previous page. */
  readonly after: string | undefined
  readonly now: Date
}

/**
 * Lists active keys first, then all others; within each group, the oldest key is first. Throws `invalid_cursor` if the
 * account has no key with the id `after`.
 */
export async function listKeyPage(
  reader: Reader,
  accountId: string,
  { status, after, now }: KeyListQuery,
  limit: number,
): Promise<ApiKeyRow[]> {
  const last = after === undefined ? undefined : await findApiKey(reader, accountId, after)
  if (after !== undefined && last === undefined) {
    throw new Problem('invalid_cursor', 'Unknown cursor; start from the first page.')
  }
  return await reader
    .selectFrom('api_keys')
    .selectAll()
    .where('account_id', '=', accountId)
    .$if(status !== undefined, (query) => query.where(hasStatus(status ?? 'active', now)))
    .$if(last !== undefined, (query) => query.where(isAfter(last?.id ?? '', now)))
    .orderBy(rankAt(now))
    .orderBy('created_at')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/**
 * Returns the condition of `isExpired` (`key-status.ts`) in SQL. `expires_at` is the time at which the key is to
 * expire; `expired_at` is set once a backend has recorded the expiry.
 */
function isExpiredAt(now: Date) {
  return sql<SqlBool>`(expired_at is not null or coalesce(expires_at <= ${now.toISOString()}, false))`
}

function hasStatus(status: KeyFilter, now: Date) {
  switch (status) {
    case 'active':
      return sql<SqlBool>`(revoked_at is null and not ${isExpiredAt(now)})`
    case 'expired':
      return sql<SqlBool>`(revoked_at is null and ${isExpiredAt(now)})`
    case 'revoked':
      return sql<SqlBool>`revoked_at is not null`
    case 'ended':
      return sql<SqlBool>`(revoked_at is not null or ${isExpiredAt(now)})`
  }
}

function rankAt(now: Date) {
  return sql<number>`case when ${hasStatus('active', now)} then 0 else 1 end`
}

function isAfter(id: string, now: Date) {
  const last = sql`(select ${rankAt(now)}, created_at, id from api_keys where id = ${id})`
  return sql<SqlBool>`(${rankAt(now)}, created_at, id) > ${last}`
}

export async function findApiKey(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<ApiKeyRow | undefined> {
  return await reader
    .selectFrom('api_keys')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

export interface EndedCounts {
  readonly revoked: number
  readonly expired: number
}

export async function countEnded(
  reader: Reader,
  accountId: string,
  now: Date,
): Promise<EndedCounts> {
  const count = (status: KeyFilter) =>
    sql<number | string>`coalesce(sum(case when ${hasStatus(status, now)} then 1 else 0 end), 0)`
  const { revoked, expired } = await reader
    .selectFrom('api_keys')
    .select([count('revoked').as('revoked'), count('expired').as('expired')])
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return { revoked: Number(revoked), expired: Number(expired) }
}

/** Returns the oldest other active key with the same name. */
export async function findOtherKeyNamed(
  reader: Reader,
  accountId: string,
  { id, name, now }: { readonly id: string; readonly name: string; readonly now: Date },
): Promise<ApiKeyRow | undefined> {
  return await reader
    .selectFrom('api_keys')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('name', '=', name)
    .where('id', '!=', id)
    .where(hasStatus('active', now))
    .orderBy('created_at')
    .limit(1)
    .executeTakeFirst()
}
