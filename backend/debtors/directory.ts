/** Lists debtors in Settings: by the oldest due date of their open invoices, by name, or by the amount owed. */
import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import type { Reader } from '../database/database.ts'
import type { DebtorRow } from '../database/tables.ts'
import type { ScannedPage } from '../lists/scan.ts'

export const DIRECTORY_VIEWS = [
  'active',
  'owing',
  'overdue',
  'unreachable',
  'paused',
  'archived',
] as const

export type DirectoryView = (typeof DIRECTORY_VIEWS)[number]

/** `due` sorts by the oldest due date, `-owes` by the amount owed in one currency, largest first. */
export const DIRECTORY_SORTS = ['due', 'name', '-owes'] as const

export type DirectorySort = (typeof DIRECTORY_SORTS)[number]

/** Returns the sort orders of a view, the default first. All are fast, because an index serves each of them. */
export function directorySortsOf(view: DirectoryView): readonly DirectorySort[] {
  if (view === 'active') return ['due', 'name', '-owes']
  if (view === 'owing') return ['due', '-owes']
  return view === 'overdue' || view === 'unreachable' ? ['due'] : ['name']
}

export interface DirectoryQuery {
  readonly view: DirectoryView
  readonly sort: DirectorySort
  /** The currency of the sort by amount owed. */
  readonly currency: string
  /** The debtors that a search found; undefined if all debtors are listed. */
  readonly ids: readonly string[] | undefined
  /** The id of the last debtor of the previous page. */
  readonly after: string | undefined
  /** The current date in the account's time zone. */
  readonly today: string
  readonly limit: number
}

/** Throws `invalid_cursor` if the account has no debtor with the id `after`. */
export async function listDirectory(
  reader: Reader,
  accountId: string,
  query: DirectoryQuery,
): Promise<ScannedPage<DebtorRow>> {
  if (query.after !== undefined) await checkCursor(reader, accountId, query.after)
  const ids = await listIds(reader, accountId, query)
  const shown = ids.slice(0, query.limit)
  const rows =
    shown.length === 0
      ? []
      : await reader
          .selectFrom('debtors')
          .selectAll()
          .where('account_id', '=', accountId)
          .where('id', 'in', shown)
          .execute()
  const byId = new Map(rows.map((row) => [row.id, row]))
  return {
    rows: shown.flatMap((id) => byId.get(id) ?? []),
    next: ids.length > query.limit ? (shown.at(-1) ?? null) : null,
    isPartial: false,
  }
}

/** Returns more ids than `limit` if there is a next page. */
async function listIds(
  reader: Reader,
  accountId: string,
  query: DirectoryQuery,
): Promise<string[]> {
  if (query.ids !== undefined) return idsOfSearchResults(reader, accountId, query, query.ids)
  if (query.sort === '-owes') return idsByAmountOwed(reader, accountId, query)
  if (query.sort === 'name') return idsByName(reader, accountId, query)
  return idsByDueDate(reader, accountId, query)
}

/**
 * Returns debtors that owe money, the oldest due date first. In the view `active`, the debtors that owe nothing
 * follow, sorted by name.
 */
async function idsByDueDate(reader: Reader, accountId: string, query: DirectoryQuery) {
  const { view, after, today, limit } = query
  const start = after === undefined ? undefined : await findStanding(reader, after)
  const owing =
    after !== undefined && start === undefined
      ? []
      : await reader
          .selectFrom('debtor_standings')
          .select('debtor_id')
          .where('account_id', '=', accountId)
          .where(sql<SqlBool>`is_active = 1`)
          .where(view === 'unreachable' ? sql<SqlBool>`is_reachable = 0` : sql<SqlBool>`1 = 1`)
          .where((eb) =>
            eb.and([
              ...(view === 'overdue' ? [eb('oldest_due_date', '<', today)] : []),
              ...(start === undefined
                ? []
                : [
                    sql<SqlBool>`(oldest_due_date, debtor_id) > (${start.oldest_due_date}, ${start.debtor_id})`,
                  ]),
            ]),
          )
          .orderBy('oldest_due_date')
          .orderBy('debtor_id')
          .limit(limit + 1)
          .execute()
  const ids = owing.map(({ debtor_id }) => debtor_id)
  if (view !== 'active' || ids.length > limit) return ids
  const others = await idsByName(
    reader,
    accountId,
    { ...query, after: start === undefined ? after : undefined, limit: limit - ids.length },
    sql<SqlBool>`not exists (select 1 from debtor_standings where debtor_id = debtors.id)`,
  )
  return [...ids, ...others]
}

async function idsByName(
  reader: Reader,
  accountId: string,
  { view, after, limit }: DirectoryQuery,
  condition = sql<SqlBool>`1 = 1`,
): Promise<string[]> {
  const start = after === undefined ? undefined : await findName(reader, after)
  const rows = await reader
    .selectFrom('debtors')
    .select('id')
    .where('account_id', '=', accountId)
    // The conditions contain literals, because a database uses a partial index only if the text of the statement
    // contains the condition of the index.
    .where(
      view === 'archived' ? sql<SqlBool>`status = 'archived'` : sql<SqlBool>`status = 'active'`,
    )
    .where(view === 'paused' ? sql<SqlBool>`chasing_status <> 'active'` : sql<SqlBool>`1 = 1`)
    .where(condition)
    .where((eb) =>
      eb.and(start === undefined ? [] : [sql<SqlBool>`(name_search, id) > (${start}, ${after})`]),
    )
    .orderBy('name_search')
    .orderBy('id')
    .limit(limit + 1)
    .execute()
  return rows.map(({ id }) => id)
}

async function idsByAmountOwed(
  reader: Reader,
  accountId: string,
  { currency, after, limit }: DirectoryQuery,
): Promise<string[]> {
  const start =
    after === undefined
      ? undefined
      : await reader
          .selectFrom('debtor_balances')
          .select('outstanding')
          .where('debtor_id', '=', after)
          .where('currency', '=', currency)
          .executeTakeFirst()
  const rows = await reader
    .selectFrom('debtor_balances')
    .select('debtor_id')
    .where('account_id', '=', accountId)
    .where('currency', '=', currency)
    // Archived debtors have a view of their own.
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('debtors')
          .select('debtors.id')
          .whereRef('debtors.id', '=', 'debtor_balances.debtor_id')
          .where('debtors.status', '=', 'active'),
      ),
    )
    .where((eb) =>
      eb.and(
        start === undefined
          ? []
          : [sql<SqlBool>`(outstanding, debtor_id) < (${start.outstanding}, ${after})`],
      ),
    )
    .orderBy('outstanding', 'desc')
    .orderBy('debtor_id', 'desc')
    .limit(limit + 1)
    .execute()
  return rows.map(({ debtor_id }) => debtor_id)
}

/** Returns how many of the debtors that a search found are in the view, on all pages. */
export async function countSearchResults(
  reader: Reader,
  accountId: string,
  query: DirectoryQuery,
  found: readonly string[],
): Promise<number> {
  return (await idsOfSearchResults(reader, accountId, { ...query, after: undefined }, found)).length
}

/** Filters and sorts the few results of a search: the oldest due date first, then by name. */
async function idsOfSearchResults(
  reader: Reader,
  accountId: string,
  { view, after, today }: Pick<DirectoryQuery, 'view' | 'after' | 'today'>,
  found: readonly string[],
): Promise<string[]> {
  if (found.length === 0) return []
  const rows = await reader
    .selectFrom('debtors')
    .leftJoin('debtor_standings', 'debtor_standings.debtor_id', 'debtors.id')
    .select([
      'debtors.id',
      'debtors.status',
      'debtors.chasing_status',
      'debtors.contactability_email',
      'debtor_standings.oldest_due_date',
    ])
    .where('debtors.account_id', '=', accountId)
    .where('debtors.id', 'in', found)
    .orderBy(sql`coalesce(debtor_standings.oldest_due_date, '9999-12-31')`)
    .orderBy('debtors.name_search')
    .orderBy('debtors.id')
    .execute()
  const ids = rows
    .filter((row) => {
      const { oldest_due_date: oldest } = row
      // The search in the default view also finds archived debtors.
      if (view === 'active') return true
      if ((row.status === 'archived') !== (view === 'archived')) return false
      if (view === 'paused') return row.chasing_status !== 'active'
      if (view === 'unreachable') return oldest !== null && row.contactability_email !== 'ok'
      if (view === 'overdue') return oldest !== null && oldest < today
      return view === 'archived' || oldest !== null
    })
    .map(({ id }) => id)
  return after === undefined ? ids : ids.slice(ids.indexOf(after) + 1)
}

async function checkCursor(reader: Reader, accountId: string, id: string): Promise<void> {
  const row = await reader
    .selectFrom('debtors')
    .select('id')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row !== undefined) return
  throw new Problem('invalid_cursor', 'Unknown cursor; start from the first page.')
}

async function findStanding(reader: Reader, debtorId: string) {
  return await reader
    .selectFrom('debtor_standings')
    .select(['oldest_due_date', 'debtor_id'])
    .where('debtor_id', '=', debtorId)
    .executeTakeFirst()
}

async function findName(reader: Reader, id: string): Promise<string | undefined> {
  const row = await reader
    .selectFrom('debtors')
    .select('name_search')
    .where('id', '=', id)
    .executeTakeFirst()
  return row?.name_search
}
