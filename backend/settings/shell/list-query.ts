/** The query of a list in Settings: filters, a cursor, a limit, and what leads to its next page. */
import { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import type { Page } from '../../lists/keyset.ts'

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200

export interface ListQuery {
  readonly limit: number
  /** The id of the last row of the page before. */
  readonly cursor: string | undefined
  /** Undefined where it is not set; a form sends it empty then. */
  value(name: string): string | undefined
}

/** Throws `Problem` 400. */
export function parseListQuery(query: URLSearchParams, filters: readonly string[]): ListQuery {
  for (const name of query.keys()) {
    if (!filters.includes(name) && name !== 'cursor' && name !== 'limit') {
      throw new Problem('unknown_query_parameter', `There is no parameter ${name} here.`)
    }
  }
  const value = (name: string) => query.get(name) || undefined
  return { limit: limitOf(value('limit')), cursor: value('cursor'), value }
}

/** One of a few words, or undefined. Throws `Problem` 400. */
export function wordOf<const T extends string>(
  { value }: ListQuery,
  name: string,
  words: readonly T[],
): T | undefined {
  const given = value(name)
  const word = words.find((candidate) => candidate === given)
  if (given === undefined || word !== undefined) return word
  throw new Problem(
    'invalid_query_parameter',
    `The parameter ${name} is one of ${words.join(', ')}.`,
  )
}

export function limitOf(text: string | undefined): number {
  if (text === undefined) return LIMIT_DEFAULT
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= LIMIT_MAX) return limit
  throw new Problem(
    'invalid_query_parameter',
    `The parameter limit is a whole number from 1 to ${LIMIT_MAX}.`,
  )
}

export interface ListPage<Row> {
  readonly rows: readonly Row[]
  /** The next page's cursor. */
  readonly next: string | null
}

/** Of rows fetched with one more than is shown. */
export function pageOf<Row extends { readonly id: string }>(
  fetched: readonly Row[],
  limit: number,
): ListPage<Row> {
  const rows = fetched.slice(0, limit)
  return { rows, next: fetched.length > limit ? (rows.at(-1)?.id ?? null) : null }
}

/** The newest first, after the row that the cursor names. Throws `invalid_cursor`. */
export async function newestFrom(
  cursor: string | undefined,
  limit: number,
  find: (id: string) => Promise<{ readonly created_at: string } | undefined>,
): Promise<Page> {
  const page = { sort: 'created_at', direction: 'desc', fetch: limit + 1 } as const
  if (cursor === undefined) return { ...page, after: undefined }
  const row = await find(cursor)
  if (row === undefined) {
    throw new Problem('invalid_cursor', 'Unknown cursor; start from the first page.')
  }
  return { ...page, after: { value: row.created_at, id: cursor } }
}

export function listOf<T>(data: readonly T[], next: string | null) {
  return { object: 'list', data, has_more: next !== null, next_cursor: next }
}

/** The way to the next page, with the filters of this one. */
export function renderNext(
  path: string,
  filters: Readonly<Record<string, string | undefined>>,
  next: string | null,
  name: string,
): Html | undefined {
  if (next === null) return undefined
  const set = Object.entries({ ...filters, cursor: next }).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, value]],
  )
  return html`<p><a class="button" href="${path}?${new URLSearchParams(set).toString()}" rel="next">${name}</a></p>`
}
