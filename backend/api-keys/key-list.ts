/** Keys as people look through them: those that work first, page by page. */
import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import type { ApiKeyRow, Reader } from '../database/tables.ts'

export const KEY_STATUSES = ['active', 'revoked'] as const

export interface KeyListQuery {
  /** Undefined: active ones, then revoked ones. */
  readonly status: (typeof KEY_STATUSES)[number] | undefined
  /** The last key of the page before. */
  readonly after: string | undefined
}

const IS_REVOKED = sql<number>`case when revoked_at is null then 0 else 1 end`

/** Each in the order of issue. Throws `invalid_cursor` where the account has no such key. */
export async function listKeyPage(
  reader: Reader,
  accountId: string,
  { status, after }: KeyListQuery,
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
    .$if(status !== undefined, (query) =>
      query.where('revoked_at', status === 'active' ? 'is' : 'is not', null),
    )
    .$if(last !== undefined, (query) => query.where(isAfter(last)))
    .orderBy(IS_REVOKED)
    .orderBy('created_at')
    .orderBy('id')
    .limit(limit)
    .execute()
}

function isAfter(last: ApiKeyRow | undefined) {
  const isRevoked = last?.revoked_at === null ? 0 : 1
  return sql<SqlBool>`(${IS_REVOKED}, created_at, id) > (${isRevoked}, ${last?.created_at}, ${last?.id})`
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

export async function countRevoked(reader: Reader, accountId: string): Promise<number> {
  const { count } = await reader
    .selectFrom('api_keys')
    .select((eb) => eb.fn.countAll<number | string>().as('count'))
    .where('account_id', '=', accountId)
    .where('revoked_at', 'is not', null)
    .executeTakeFirstOrThrow()
  return Number(count)
}
