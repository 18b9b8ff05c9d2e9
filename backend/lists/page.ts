/**
 * Reads a page of a list that is sorted by one column and filtered by others, e.g. the invoices that were updated since
 * yesterday, sorted by creation. There are two methods. Scanning the list in its order is fast if enough matches are
 * close to the start. Reading and sorting all rows that match one of the filters is fast if these are few. In a large
 * account, the slower method takes seconds.
 *
 * The service collects no statistics on SQLite (it never runs `ANALYZE`), so SQLite often chooses the slower method.
 * `readPage` therefore scans some rows of the list and counts some matches of each filter, and continues with twice as
 * many until either the page is full or all matches of a filter are counted. In the latter case, it sorts these
 * matches. A page takes at most about three times as long as with the faster method.
 *
 * PostgreSQL usually chooses the faster method from its statistics. It assumes, however, that matches are spread evenly
 * over the list, which is often wrong if the list is filtered by a time other than the one by which it is sorted. With
 * such a filter, `readPage` first scans and counts as on SQLite. After `SCANS_MAX_POSTGRES` scans, it leaves the choice
 * to PostgreSQL.
 */
import { type Compilable, type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { isPostgres } from '../database/engine.ts'
import { preparedPage } from '../database/prepared.ts'
import {
  type AnyTimeFilters,
  type Condition,
  isAnyDefined,
  isInLiterals,
  type KeysetPage,
  literally,
  orderOf,
  type PageBounds,
  type PageVariant,
  type Position,
  pageWithBounds,
  splitPage,
  type TimeRange,
  timeRangesOf,
  withImpliedBounds,
  withinBounds,
  withinSorted,
} from './keyset.ts'

/** The number of rows of the first scan. */
const FIRST_SCAN_ROWS = 1000

/**
 * The number of matches that are counted for each scanned row, if the filter's index is sorted by creation and the scan
 * is not. SQLite stores rows in the order of creation, so such a scan jumps from row to row, and a scanned row takes
 * about twice as long as a counted match.
 */
const COUNTED_IN_STORED_ORDER_SQLITE = 2

/**
 * The number of matches that are counted for each scanned row on PostgreSQL. It is less than one, because sorting a
 * match takes longer than scanning a row.
 */
const COUNTED_POSTGRES = 1 / 2

/** The maximum number of scans on PostgreSQL: together, they scan 63,000 rows in tens of milliseconds. */
const SCANS_MAX_POSTGRES = 6

interface List<V> {
  readonly table: ListTable
  /** The values of the statement's parameters, including the times by which the list is filtered. */
  readonly values: V
  /** Values of filters that match few rows, such as a debtor. If one is defined, the list is not scanned. */
  readonly selectiveFilters: readonly unknown[]
  /** Filters by other indexed columns, which may match many rows. */
  readonly broadFilters: readonly IndexedFilter[]
  /**
   * Called if the first scan, which has ended at `after`, has not filled the page. Resolves with a later position at
   * which scanning can continue, because all further matches follow it; undefined if no such position is known.
   */
  readonly findPositionBeforeMatches?: FindPositionBeforeMatches<V>
}

type FindPositionBeforeMatches<V> = (
  reader: Reader,
  values: V,
  page: KeysetPage,
  after: Position,
) => Promise<Position | undefined>

type ListTable = 'debtors' | 'invoices' | 'payments' | 'messages'

/**
 * Reads the page by the faster method. `read` runs the statement of the list: `variant` determines its text, and
 * `values` are its parameters.
 */
export async function readPage<
  V extends AnyTimeFilters & { readonly accountId: string },
  Row extends { readonly id: string },
>(
  reader: Reader,
  list: List<V>,
  page: KeysetPage,
  read: (values: V & PageBounds, variant: PageVariant) => Promise<Row[]>,
): Promise<Row[]> {
  const { table, selectiveFilters, findPositionBeforeMatches } = list
  const values = withImpliedBounds(list.values, page.sort)
  const { scanned, timeFilters, otherFilters } = planScan({ ...list, values }, page.sort)
  const scan: Scan<Row> = {
    accountTable: { table, accountId: values.accountId },
    scanned,
    filters: [...timeFilters, ...otherFilters],
    async readPart(part) {
      const { variant, bounds } = splitPage(part)
      return await read({ ...values, ...bounds }, variant)
    },
    async findPositionBeforeMatches(after) {
      return await findPositionBeforeMatches?.(reader, values, page, after)
    },
  }
  if (isAnyDefined(...selectiveFilters)) return await scan.readPart(page)
  if (scan.filters.length === 0) return await scan.readPart(page)
  return isPostgres(reader) && timeFilters.length === 0
    ? await readByStatistics(scan, page)
    : await scanAndCount(reader, scan, page)
}

/**
 * Reads the rows by the method that PostgreSQL chooses. All columns with conditions are in `indexableColumns`: any
 * other column would become an expression (see `unindexed` in keyset.ts), for which PostgreSQL has no statistics.
 */
async function readByStatistics<Row>({ scanned, filters, readPart }: Scan<Row>, page: KeysetPage) {
  const columns = [scanned, ...filters].map(({ column }) => column)
  return await readPart({ ...page, indexableColumns: [page.sort, ...columns] })
}

interface Scan<Row> {
  readonly accountTable: AccountTable
  /** The section of an index, in the order of the list, that is scanned. */
  readonly scanned: IndexSection & Pick<IndexedFilter, 'column'>
  readonly filters: readonly IndexedFilter[]
  readPart(part: KeysetPage): Promise<Row[]>
  findPositionBeforeMatches(after: Position): Promise<Position | undefined>
}

async function scanAndCount<Row extends { readonly id: string }>(
  reader: Reader,
  scan: Scan<Row>,
  page: KeysetPage,
): Promise<Row[]> {
  const { accountTable, scanned, readPart } = scan
  /** The rows by their ids, because a row that changes meanwhile may be read twice. */
  const found = new Map<string, Row>()
  const add = (rows: readonly Row[]) => {
    for (const row of rows) if (!found.has(row.id)) found.set(row.id, row)
  }
  const scansMax = isPostgres(reader) ? SCANS_MAX_POSTGRES : Number.POSITIVE_INFINITY
  let { filters } = scan
  let unscanned = page
  for (let number = 0; number < scansMax; number++) {
    const count = FIRST_SCAN_ROWS * 2 ** number
    const uncounted = await Promise.all(
      filters.map((filter) => countMatches(reader, accountTable, filter, count, page.sort)),
    )
    // All matches of this filter are counted, so there are few enough to sort.
    const selective = uncounted.find(({ sections }) => sections.length === 0)
    if (selective !== undefined)
      return await readPart({ ...page, indexableColumns: [selective.column] })
    const end = await findPosition(reader, accountTable, { ...unscanned, ...scanned }, count)
    add(
      await readPart({
        ...unscanned,
        indexableColumns: [page.sort, scanned.column],
        ...(end && { end }),
      }),
    )
    if (end === undefined || found.size >= page.rowsMax) {
      return [...found.values()].slice(0, page.rowsMax)
    }
    filters = uncounted
    const beforeMatches = number === 0 ? await scan.findPositionBeforeMatches(end) : undefined
    unscanned = { ...page, after: beforeMatches ?? end }
  }
  add(await readByStatistics(scan, unscanned))
  return [...found.values()].slice(0, page.rowsMax)
}

/**
 * Adjacent rows of an index, in the order of `sort`. `literals` limits them to rows in which the filter's column has
 * one of these values, and `range` limits `sort`.
 */
interface IndexSection {
  readonly sort: string
  readonly range?: TimeRange | undefined
  readonly literals?: readonly string[]
  /**
   * The condition of the index if it is partial: SQLite uses the index only if the statement contains the condition.
   */
  readonly condition?: string
  readonly after?: Position | undefined
}

/** A filter by a column. Its sections are parts of an index of this column, and together contain all matches. */
export interface IndexedFilter {
  readonly column: string
  /**
   * If empty in a filter of a list, the filter is not set. If empty in a result of `countMatches`, all matches are
   * counted.
   */
  readonly sections: readonly IndexSection[]
}

/**
 * Returns the filter for a column with few values. There must be an index of the column and `created_at`; if it is
 * partial, `condition` is its condition.
 */
export function literalFilter(
  column: string,
  literals: readonly (string | undefined)[],
  condition?: string,
): IndexedFilter {
  const values = literals.filter((value) => value !== undefined)
  const index = { sort: 'created_at', ...(condition !== undefined && { condition }) }
  return { column, sections: values.map((value) => ({ ...index, literals: [value] })) }
}

/**
 * Returns the filter for a range of a column. There must be an index that is sorted by this column; if it is partial,
 * `condition` is its condition.
 */
export function rangeFilter(
  column: string,
  since: string | undefined,
  before: string | undefined,
  condition?: string,
): IndexedFilter {
  const index = { sort: column, ...(condition !== undefined && { condition }) }
  return { column, sections: [{ ...index, range: [column, since, before] }] }
}

/**
 * Chooses the section of an index to scan: it contains all matches in the order of the list. Also returns the filters
 * that the section does not imply.
 */
function planScan<V extends AnyTimeFilters>({ values, broadFilters }: List<V>, sort: string) {
  const ranges = timeRangesOf(values)
  const range = ranges.find(([column]) => column === sort)
  const inOrder = broadFilters.find(
    ({ sections: { length, 0: first } }) => length === 1 && first?.sort === sort,
  )
  const filters = broadFilters.filter((filter) => filter !== inOrder && filter.sections.length > 0)
  // A broad filter can have the column of a time range, e.g. the unpaid invoices by due date. It then replaces the
  // result of `rangeFilter`, because its index may contain fewer rows.
  const timeFilters = ranges
    .filter((other) => other !== range)
    .map((other) => filters.find(({ column }) => column === other[0]) ?? rangeFilter(...other))
  const otherFilters = filters.filter((filter) => !timeFilters.includes(filter))
  return {
    scanned: { column: inOrder?.column ?? sort, sort, ...inOrder?.sections[0], range },
    timeFilters,
    otherFilters,
  }
}

interface AccountTable {
  readonly table: ListTable
  readonly accountId: string
}

/**
 * Counts the next matches in each section of a filter, for about as long as a scan of `scannedRows` rows in the order
 * of `scannedSort` takes. Returns the filter with the sections that have more matches, each beginning after the counted
 * ones.
 */
async function countMatches(
  reader: Reader,
  accountTable: AccountTable,
  { column, sections }: IndexedFilter,
  scannedRows: number,
  scannedSort: string,
): Promise<IndexedFilter> {
  const page = { direction: 'asc', rowsMax: 1, after: undefined } as const
  const uncounted = await Promise.all(
    sections.map(async (section) => {
      const count = scannedRows * countedPerRow(reader, section.sort, scannedSort)
      const after = await findPosition(reader, accountTable, { ...page, ...section, column }, count)
      return after === undefined ? [] : [{ ...section, after }]
    }),
  )
  return { column, sections: uncounted.flat() }
}

function countedPerRow(reader: Reader, sort: string, scannedSort: string): number {
  if (isPostgres(reader)) return COUNTED_POSTGRES
  const onlyCountIsInStoredOrder = sort === 'created_at' && scannedSort !== 'created_at'
  return onlyCountIsInStoredOrder ? COUNTED_IN_STORED_ORDER_SQLITE : 1
}

/**
 * Returns the position of the last of the first `number` rows of a section; undefined if the section has fewer rows.
 */
async function findPosition(
  reader: Reader,
  { table, accountId }: AccountTable,
  {
    column,
    range,
    literals,
    condition,
    ...page
  }: KeysetPage & IndexSection & Pick<IndexedFilter, 'column'>,
  number: number,
): Promise<Position | undefined> {
  const { variant, bounds } = splitPage(page)
  const [, since, before] = range ?? []
  const times = { ...(since !== undefined && { since }), ...(before !== undefined && { before }) }
  const values = { ...bounds, accountId, ...times }
  const [position] = await readPosition(reader, values, {
    ...variant,
    table,
    column,
    literals,
    condition,
    number,
  })
  return position
}

type PositionValues = PageBounds & {
  readonly accountId: string
  readonly since?: string
  readonly before?: string
}

interface PositionVariant extends PageVariant, Pick<IndexedFilter, 'column'> {
  readonly table: ListTable
  readonly literals: readonly string[] | undefined
  readonly condition: string | undefined
  readonly number: number
}

const readPosition = preparedPage(
  (reader: Reader, values: PositionValues, variant: PositionVariant) => {
    const page = pageWithBounds(variant, values)
    return reader
      .selectFrom(variant.table)
      .select([sql<string>`${sql.ref(page.sort)}`.as('value'), 'id'])
      .where((eb) =>
        eb.and([
          eb('account_id', '=', values.accountId),
          ...isInLiterals(variant.column, variant.literals),
          ...literally(variant.condition),
          // The index of a column that can be null omits rows without a value. Without this condition, SQLite would not
          // use this index for the comparison of (column, id) with a position.
          sql<SqlBool>`${sql.ref(page.sort)} is not null`,
          ...withinSorted(page, values.since, values.before),
          ...withinBounds(page),
        ]),
      )
      .orderBy(orderOf(page))
      .limit(sql.lit(1))
      .offset(sql.lit(variant.number - 1))
      .$castTo<Position>()
  },
)

/**
 * Returns the query for the rows that `readPage` requests. The conditions must include the bounds of the page.
 * `computed` contains expressions with subqueries, by the names of their columns.
 */
export function selectPage<Row>(
  reader: Reader,
  table: ListTable,
  columns: readonly (string & keyof Row)[],
  page: KeysetPage,
  conditions: readonly Condition[],
  computed: Readonly<Record<string, RawBuilder<unknown>>> = {},
): Compilable<Row> {
  const selected = [
    ...columns.map((column) => sql.ref(column).as(column)),
    ...Object.entries(computed).map(([name, expression]) => expression.as(name)),
  ]
  const found = reader
    .selectFrom(table)
    .where((eb) => eb.and([...conditions]))
    .orderBy(orderOf(page))
    .limit(sql.lit(page.rowsMax))
  const isReadInOrder = page.indexableColumns?.includes(page.sort) ?? true
  // The subqueries must run only for the rows of the page, not for all rows that are sorted.
  const mustSortFirst = page.ignoresSortIndex && Object.keys(computed).length > 0
  if (isReadInOrder && !mustSortFirst) return found.select(selected).$castTo<Row>()
  // Sorting ids takes a fraction of the time of sorting whole rows.
  return reader
    .selectFrom(table)
    .select(selected)
    .where('id', 'in', found.select('id'))
    .orderBy(orderOf(page))
    .limit(sql.lit(page.rowsMax))
    .$castTo<Row>()
}
