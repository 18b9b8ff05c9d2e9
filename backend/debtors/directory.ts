/**
 * Lists debtors in Settings: by the oldest due date of their open invoices, by name, or by the amount owed. The table
 * `debtor_standings` contains only the debtors that owe money.
 *
 * Some conditions contain literals instead of parameters, so that the database uses a partial index (see
 * `INVOICE_IS_OPEN` in `balances.ts`).
 */
import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import { isCalendarDate } from '../calendar/calendar.ts'
import type { Reader } from '../database/database.ts'
import type { DebtorRow } from '../database/tables.ts'
import { type ScannedPage, withWholeRows } from '../lists/scan.ts'
import { IS_BALANCE_OF_ACTIVE_DEBTOR } from './due-totals.ts'

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

/** Returns the sort orders of a view, the default first. An index serves each of them. */
export function directorySortsOf(view: DirectoryView): readonly DirectorySort[] {
  if (view === 'active') return ['due', 'name', '-owes']
  if (view === 'owing') return ['due', '-owes']
  return view === 'overdue' || view === 'unreachable' ? ['due'] : ['name']
}

export interface DirectoryQuery {
  readonly view: DirectoryView
  /** Ignored if `ids` is given: the results of a search are sorted by due date. */
  readonly sort: DirectorySort
  /** The currency of the sort by amount owed. */
  readonly currency: string
  /** The debtors that a search found; undefined if all debtors are listed. */
  readonly ids: readonly string[] | undefined
  /** `next` of the previous page. */
  readonly after: string | undefined
  /** The current date in the account's time zone. */
  readonly today: string
  readonly limit: number
}

const ALWAYS_TRUE = sql<SqlBool>`1 = 1`

/** A debtor, and the value by which the list is sorted: a due date, `none` if the debtor owes nothing, or an amount. */
interface DebtorPosition {
  readonly id: string
  /** Undefined if the list is sorted by name. */
  readonly value: string | undefined
}

interface Start extends DebtorPosition {
  readonly name: string
}

/** `start` is the position that the cursor describes; undefined for the first page. */
type PositionedQuery = Omit<DirectoryQuery, 'ids' | 'after'> & { readonly start: Start | undefined }

/**
 * Throws `invalid_cursor` if `after` does not contain the id of a debtor of the account, or if the list is sorted by
 * due date or amount and `after` does not contain such a value.
 */
export async function listDirectory(
  reader: Reader,
  accountId: string,
  { ids: found, after, ...query }: DirectoryQuery,
): Promise<ScannedPage<DebtorRow>> {
  const start = after === undefined ? undefined : await readStart(reader, accountId, after)
  const positions = await listPositions(reader, accountId, { ...query, start }, found)
  const shown = positions.slice(0, query.limit)
  const last = shown.at(-1)
  const next = positions.length > query.limit && last !== undefined ? cursorOf(last) : null
  return withWholeRows({ rows: shown, next, isPartial: false }, (ids) =>
    reader
      .selectFrom('debtors')
      .selectAll()
      .where('account_id', '=', accountId)
      .where('id', 'in', ids)
      .execute(),
  )
}

/**
 * The cursor contains the value by which the list was sorted: if the debtor pays before the next page is requested, its
 * new value is at another place in the list.
 */
function cursorOf({ id, value }: DebtorPosition): string {
  return value === undefined ? id : `${value}_${id}`
}

async function readStart(reader: Reader, accountId: string, cursor: string): Promise<Start> {
  const [, value, id = ''] = /^(?:(none|[\d-]{1,16})_)?(deb_\w+)$/.exec(cursor) ?? []
  const row = await reader
    .selectFrom('debtors')
    .select('name_search')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row === undefined ? rejectCursor() : { id, value, name: row.name_search }
}

function rejectCursor(): never {
  throw new Problem('invalid_cursor', 'Unknown cursor; start from the first page.')
}

/** Returns more positions than `limit` if there is a next page. */
async function listPositions(
  reader: Reader,
  accountId: string,
  query: PositionedQuery,
  found: readonly string[] | undefined,
): Promise<DebtorPosition[]> {
  if (found !== undefined) return listSearchResults(reader, accountId, query, found)
  if (query.sort === '-owes') return listByAmountOwed(reader, accountId, query)
  if (query.sort === 'name') return listByName(reader, accountId, query)
  return listByDueDate(reader, accountId, query)
}

/**
 * Returns debtors that owe money, the oldest due date first. In the view `active`, the debtors that owe nothing
 * follow, sorted by name.
 */
async function listByDueDate(
  reader: Reader,
  accountId: string,
  query: PositionedQuery,
): Promise<DebtorPosition[]> {
  const { view, start, today, limit } = query
  const date = start === undefined ? undefined : dueDateOf(start)
  const owing =
    date === NONE
      ? []
      : await reader
          .selectFrom('debtor_standings')
          .select(['debtor_id as id', 'oldest_due_date as value'])
          .where('account_id', '=', accountId)
          .where(sql<SqlBool>`is_active = 1`)
          .where(view === 'unreachable' ? sql<SqlBool>`is_reachable = 0` : ALWAYS_TRUE)
          .where((eb) =>
            eb.and([
              ...(view === 'overdue' ? [eb('oldest_due_date', '<', today)] : []),
              ...(start === undefined
                ? []
                : [sql<SqlBool>`(oldest_due_date, debtor_id) > (${date}, ${start.id})`]),
            ]),
          )
          .orderBy('oldest_due_date')
          .orderBy('debtor_id')
          .limit(limit + 1)
          .execute()
  if (view !== 'active' || owing.length > limit) return owing
  const others = await listByName(
    reader,
    accountId,
    { ...query, start: date === NONE ? start : undefined, limit: limit - owing.length },
    sql<SqlBool>`not exists (select 1 from debtor_standings where debtor_id = debtors.id)`,
  )
  return [...owing, ...others.map(({ id }) => ({ id, value: NONE }))]
}

/** The value of a debtor that owes nothing. It sorts after every date. */
const NONE = 'none'

function dueDateOf({ value }: Start): string {
  return value === NONE || (value !== undefined && isCalendarDate(value)) ? value : rejectCursor()
}

async function listByName(
  reader: Reader,
  accountId: string,
  { view, start, limit }: PositionedQuery,
  condition = ALWAYS_TRUE,
): Promise<DebtorPosition[]> {
  const rows = await reader
    .selectFrom('debtors')
    .select('id')
    .where('account_id', '=', accountId)
    .where(
      view === 'archived' ? sql<SqlBool>`status = 'archived'` : sql<SqlBool>`status = 'active'`,
    )
    .where(view === 'paused' ? sql<SqlBool>`chasing_status <> 'active'` : ALWAYS_TRUE)
    .where(condition)
    .where((eb) =>
      eb.and(
        start === undefined ? [] : [sql<SqlBool>`(name_search, id) > (${start.name}, ${start.id})`],
      ),
    )
    .orderBy('name_search')
    .orderBy('id')
    .limit(limit + 1)
    .execute()
  return rows.map(({ id }) => ({ id, value: undefined }))
}

/** Omits the debtors that owe nothing in the currency, even in the view `active`. */
async function listByAmountOwed(
  reader: Reader,
  accountId: string,
  { currency, start, limit }: PositionedQuery,
): Promise<DebtorPosition[]> {
  const rows = await reader
    .selectFrom('debtor_balances')
    .select(['debtor_id as id', 'outstanding'])
    .where('account_id', '=', accountId)
    .where('currency', '=', currency)
    .where(IS_BALANCE_OF_ACTIVE_DEBTOR)
    .where((eb) =>
      eb.and(
        start === undefined
          ? []
          : [sql<SqlBool>`(outstanding, debtor_id) < (${amountOf(start)}, ${start.id})`],
      ),
    )
    .orderBy('outstanding', 'desc')
    .orderBy('debtor_id', 'desc')
    .limit(limit + 1)
    .execute()
  return rows.map(({ id, outstanding }) => ({ id, value: String(outstanding) }))
}

function amountOf({ value }: Start): number {
  return value !== undefined && /^\d+$/.test(value) ? Number(value) : rejectCursor()
}

/** Returns how many of the debtors that a search found are in the view, on all pages. */
export async function countSearchResults(
  reader: Reader,
  accountId: string,
  query: DirectoryQuery,
  found: readonly string[],
): Promise<number> {
  return (await listSearchResults(reader, accountId, { ...query, start: undefined }, found)).length
}

/** Sorts by the oldest due date, then by name. */
async function listSearchResults(
  reader: Reader,
  accountId: string,
  { view, start, today }: Pick<PositionedQuery, 'view' | 'start' | 'today'>,
  found: readonly string[],
): Promise<DebtorPosition[]> {
  if (found.length === 0) return []
  const date = sql<string>`coalesce(debtor_standings.oldest_due_date, ${NONE})`
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
    .where((eb) =>
      eb.and(
        start === undefined
          ? []
          : [
              sql<SqlBool>`(${date}, debtors.name_search, debtors.id) >
                (${dueDateOf(start)}, ${start.name}, ${start.id})`,
            ],
      ),
    )
    .orderBy(date)
    .orderBy('debtors.name_search')
    .orderBy('debtors.id')
    .execute()
  return rows
    .filter((row) => {
      const { oldest_due_date: oldest } = row
      // `active` is the default view, in which a search also finds archived debtors.
      if (view === 'active') return true
      if ((row.status === 'archived') !== (view === 'archived')) return false
      if (view === 'paused') return row.chasing_status !== 'active'
      if (view === 'unreachable') return oldest !== null && row.contactability_email !== 'ok'
      if (view === 'overdue') return oldest !== null && oldest < today
      return view === 'archived' || oldest !== null
    })
    .map(({ id, oldest_due_date: oldest }) => ({ id, value: oldest ?? NONE }))
}
