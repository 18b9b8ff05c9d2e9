/** Debtors as people look through them: by name, a part of which is enough to find one. */
import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import type { Reader } from '../database/database.ts'
import type { DebtorRow } from '../database/tables.ts'
import type { Condition } from '../lists/keyset.ts'
import { searchForm } from './debtors.ts'

/** All but `archived` are of those that are not. */
export const DIRECTORY_VIEWS = ['active', 'overdue', 'paused', 'unreachable', 'archived'] as const

export type DirectoryView = (typeof DIRECTORY_VIEWS)[number]

export interface DirectoryQuery {
  readonly view: DirectoryView
  /** A part of the name, or the beginning of the address. */
  readonly search: string | undefined
  /** The last debtor of the page before. */
  readonly after: string | undefined
  /** The account's. */
  readonly today: string
}

/** By name. Throws `invalid_cursor` where the account has no such debtor. */
export async function listDirectory(
  reader: Reader,
  accountId: string,
  { view, search, after, today }: DirectoryQuery,
  limit: number,
): Promise<DebtorRow[]> {
  const start = after === undefined ? [] : await afterDebtor(reader, accountId, after)
  return await reader
    .selectFrom('debtors')
    .selectAll()
    .where((eb) =>
      eb.and([
        eb('account_id', '=', accountId),
        eb('status', '=', view === 'archived' ? 'archived' : 'active'),
        ...isInView(view, today),
        ...matches(search),
        ...start,
      ]),
    )
    .orderBy('name_search')
    .orderBy('id')
    .limit(limit)
    .execute()
}

async function afterDebtor(reader: Reader, accountId: string, id: string): Promise<Condition[]> {
  const row = await reader
    .selectFrom('debtors')
    .select('name_search')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) {
    throw new Problem('invalid_cursor', 'Unknown cursor; start from the first page.')
  }
  return [sql`(name_search, id) > (${row.name_search}, ${id})`]
}

function isInView(view: DirectoryView, today: string): Condition[] {
  if (view === 'paused') return [sql<SqlBool>`chasing_status <> 'active'`]
  if (view === 'unreachable') return [sql<SqlBool>`contactability_email <> 'ok'`]
  if (view !== 'overdue') return []
  // The status as a literal: the index of open invoices is used only where the text implies it.
  return [
    sql<SqlBool>`exists (
      select 1 from invoices
      where invoices.debtor_id = debtors.id
        and invoices.status in ('open', 'partially_paid')
        and invoices.due_date < ${today}
    )`,
  ]
}

function matches(search: string | undefined): Condition[] {
  if (search === undefined) return []
  const escaped = searchForm(search).replace(/[\\%_]/g, (sign) => `\\${sign}`)
  return [
    sql<SqlBool>`(name_search like ${`%${escaped}%`} escape '\\'
      or lower(email) like ${`${escaped}%`} escape '\\')`,
  ]
}
