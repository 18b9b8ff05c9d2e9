/** Creates the operations that list objects. A response contains one page and a link to the next page. */
import assert from 'node:assert'
import joi from 'joi'
import type { Reader } from '../database/database.ts'
import type { KeysetPage, Position } from '../lists/keyset.ts'
import { instant, parsed } from '../validation/fields.ts'
import { signCursor, verifyCursor } from './cursor.ts'
import type { Call, Operation } from './operation.ts'
import {
  type Parameter,
  parametersOf,
  parseQuery,
  type QueryOf,
  type QuerySchema,
} from './query.ts'

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200

/**
 * The maximum number of characters in the rows of a page: the page ends before the row that would exceed it, but
 * contains at least one row. Rendering a page blocks the event loop: 200 of the largest invoices take up 25 MB, and
 * would delay all other calls by half a second.
 */
const PAGE_LENGTH_MAX = 2_000_000

/**
 * Rows are read in portions of this size, so that few are read in vain if the page ends because of `PAGE_LENGTH_MAX`.
 */
const PORTION_MAX = LIMIT_DEFAULT

const LIMIT = parsed((value) => {
  const limit = /^\d{1,3}$/.test(value) ? Number(value) : 0
  return limit >= 1 && limit <= LIMIT_MAX ? limit : undefined
}, `an integer from 1 to ${LIMIT_MAX}`)

const TIME_FILTERS = {
  created_since: instant,
  created_before: instant,
  updated_since: instant,
  updated_before: instant,
}

type SortColumn = 'created_at' | 'updated_at' | 'due_date'

export type FiltersOf<S extends QuerySchema> = QueryOf<S & typeof TIME_FILTERS>

export interface ListRow {
  readonly id: string
  readonly created_at: string
  readonly updated_at: string
  readonly due_date?: string
}

export interface ListOptions<S extends QuerySchema, Row extends ListRow> {
  readonly operationId: string
  /** The columns by which clients can sort, each in both directions. */
  readonly sorts: readonly SortColumn[]
  readonly filters: S
  /** Returns up to `page.rowsMax` rows, in the page's order. */
  find(reader: Reader, call: Call, filters: FiltersOf<S>, page: KeysetPage): Promise<readonly Row[]>
  /**
   * Returns the representations of the rows, in the same order. `find` must have read all parts of the objects that can
   * change: if `represent` read them, in another statement, they could belong to a later revision than the row.
   */
  represent(reader: Reader, call: Call, rows: readonly Row[]): Promise<readonly object[]>
}

export function listOperation<S extends QuerySchema, Row extends ListRow>(
  options: ListOptions<S, Row>,
): Operation {
  const { operationId, sorts } = options
  // The schema accepts any text, even an empty one, because `verifyCursor` rejects invalid cursors.
  const cursor = joi.string().allow('')
  const pagingSchema = { limit: LIMIT, cursor, sort: sortOf(sorts) }
  const filterSchema = { ...TIME_FILTERS, ...options.filters }
  const isPaging = ({ name }: Parameter) => Object.hasOwn(pagingSchema, name)
  return {
    operationId,
    async respond(call, { database: { read }, baseUrl, cursorKeys }) {
      const sent = parametersOf(call.query)
      const filters = parseQuery(
        filterSchema,
        sent.filter((parameter) => !isPaging(parameter)),
      )
      const {
        limit = LIMIT_DEFAULT,
        sort = DEFAULT_SORT,
        cursor,
      } = parseQuery(pagingSchema, sent.filter(isPaging))
      const { column, direction } = sort
      const accountId = call.caller.account.id
      const cursorScope = { accountId, operationId, sort: `${column} ${direction}`, filters }
      const after = cursor === undefined ? undefined : verifyCursor(cursorKeys, cursorScope, cursor)
      const request = { filters, sort, limit, after }
      const { rows, hasMore } = await readRows(options, read, call, request)
      const last = hasMore ? rows.at(-1) : undefined
      const next = last && signCursor(cursorKeys, cursorScope, positionOf(last, column))
      const body = {
        object: 'list',
        data: await options.represent(read, call, rows),
        has_more: next !== undefined,
        next_cursor: next ?? null,
      }
      const link = next && linkTo(baseUrl + call.path, next, limit, sent)
      return { status: 200, body: JSON.stringify(body), headers: link ? { link } : {} }
    },
  }
}

interface PageRequest<Filters> {
  readonly filters: Filters
  readonly sort: Sort
  readonly limit: number
  readonly after: Position | undefined
}

async function readRows<S extends QuerySchema, Row extends ListRow>(
  { find }: ListOptions<S, Row>,
  reader: Reader,
  call: Call,
  { filters, sort: { column, direction }, limit, after }: PageRequest<FiltersOf<S>>,
): Promise<{ readonly rows: readonly Row[]; readonly hasMore: boolean }> {
  const rows: Row[] = []
  let length = 0
  for (;;) {
    const count = Math.min(PORTION_MAX, limit - rows.length)
    const last = rows.at(-1)
    const position = last === undefined ? after : positionOf(last, column)
    const page = { sort: column, direction, rowsMax: count + 1, after: position }
    const found = await find(reader, call, filters, page)
    for (const row of found.slice(0, count)) {
      length += lengthOf(row)
      if (length > PAGE_LENGTH_MAX && rows.length > 0) return { rows, hasMore: true }
      rows.push(row)
    }
    const hasMore = found.length > count
    if (!hasMore || rows.length === limit) return { rows, hasMore }
  }
}

/** Returns the number of characters of the row's texts. `Object.values` would take three times as long. */
function lengthOf<Row extends ListRow>(row: Row): number {
  let length = 0
  for (const name in row) {
    const value = row[name]
    if (typeof value === 'string') length += value.length
  }
  return length
}

interface Sort {
  readonly column: SortColumn
  readonly direction: 'asc' | 'desc'
}

const DEFAULT_SORT: Sort = { column: 'created_at', direction: 'desc' }

function positionOf(row: ListRow, column: SortColumn): Position {
  const value = row[column]
  assert(value !== undefined, `rows of a list that is sorted by ${column} must have this column`)
  return { value, id: row.id }
}

/** `due_date` sorts in ascending order, `-due_date` in descending order. */
function sortOf(columns: readonly SortColumn[]) {
  const sorts = new Map<string, Sort>(
    columns.flatMap((column) => [
      [column, { column, direction: 'asc' }],
      [`-${column}`, { column, direction: 'desc' }],
    ]),
  )
  return parsed((value) => sorts.get(value), `one of ${[...sorts.keys()].join(', ')}`)
}

/** Returns the Link header for the next page: the request's parameters with the next cursor and an explicit limit. */
function linkTo(url: string, cursor: string, limit: number, sent: readonly Parameter[]): string {
  const rest = sent.filter(({ name }) => name !== 'cursor' && name !== 'limit')
  const query = new URLSearchParams([
    ['cursor', cursor],
    ['limit', String(limit)],
    ...rest.map(({ name, text: value }): [string, string] => [name, value]),
  ])
  return `<${url}?${query}>; rel="next"`
}
