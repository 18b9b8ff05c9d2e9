import { Problem } from '../../../shared/contract/problem.ts'
import { isCalendarDate } from '../../calendar/calendar.ts'
import { type Html, html } from '../../html/html.ts'
import type { KeysetPage } from '../../lists/keyset.ts'
import { type AmountRange, isDecimal } from '../../money/amount-range.ts'

/** `trail` contains the cursors of previous pages, see `renderPager`. */
const PAGING: readonly string[] = ['limit', 'trail']
const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200

export interface ListQuery {
  readonly limit: number
  /** Returns the parameter `limit`, or `count` if the query has no such parameter. */
  limitOr(count: number): number
  /** The `next` of the previous page; undefined for the first page. */
  readonly cursor: string | undefined
  /** Returns the parameter; undefined if it is absent, or empty because a form sent an empty field. */
  value(name: string): string | undefined
}

/** `cursorName` is the parameter with the cursor: a few lists have always named it `before`. Throws `Problem` 400. */
export function parseListQuery(
  query: URLSearchParams,
  filters: readonly string[],
  cursorName: 'cursor' | 'before' = 'cursor',
): ListQuery {
  const names = [...filters, ...PAGING, cursorName]
  for (const name of query.keys()) {
    if (!names.includes(name)) {
      throw new Problem('unknown_query_parameter', `This page has no parameter ${name}.`)
    }
  }
  const value = (name: string) => query.get(name) || undefined
  const limit = limitOf(value('limit'))
  const limitOr = (count: number) => (value('limit') === undefined ? count : limit)
  return { limit, limitOr, cursor: value(cursorName), value }
}

/** Parses a calendar date. Throws `Problem` 400. */
export function dateOf({ value }: ListQuery, name: string): string | undefined {
  const given = value(name)
  if (given === undefined || isCalendarDate(given)) return given
  throw new Problem('invalid_query_parameter', `The parameter ${name} must be a date, YYYY-MM-DD.`)
}

/** Parses a range of amounts, `amount_min` to `amount_max`. Throws `Problem` 400. */
export function amountRangeOf({ value }: ListQuery): AmountRange {
  const decimalOf = (name: string) => {
    // As in amount fields, one or two digits after the last comma are decimals, e.g. in `1234,50`.
    const given = value(name)
      ?.trim()
      .replace(/,(?=\d{1,2}$)/, '.')
      .replaceAll(',', '')
    if (given === undefined || isDecimal(given)) return given
    throw new Problem(
      'invalid_query_parameter',
      `The parameter ${name} must be an amount, e.g. 1234.50.`,
    )
  }
  return { min: decimalOf('amount_min'), max: decimalOf('amount_max') }
}

/** Parses a parameter that must be one of the given words. Throws `Problem` 400. */
export function choiceOf<const T extends string>(
  { value }: ListQuery,
  name: string,
  words: readonly T[],
): T | undefined {
  const given = value(name)
  const word = words.find((candidate) => candidate === given)
  if (given === undefined || word !== undefined) return word
  throw new Problem(
    'invalid_query_parameter',
    `The parameter ${name} must be one of ${words.join(', ')}.`,
  )
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return LIMIT_DEFAULT
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= LIMIT_MAX) return limit
  throw new Problem(
    'invalid_query_parameter',
    `The parameter limit must be a whole number from 1 to ${LIMIT_MAX}.`,
  )
}

export interface ListPage<Row> {
  readonly rows: readonly Row[]
  readonly next: string | null
}

/** Makes a page of up to `limit` rows. An extra row must have been fetched, to show whether a next page exists. */
export function pageOf<Row extends { readonly id: string }>(
  fetched: readonly Row[],
  limit: number,
): ListPage<Row> {
  const rows = fetched.slice(0, limit)
  return { rows, next: fetched.length > limit ? (rows.at(-1)?.id ?? null) : null }
}

/** The first page of a list, newest first. It reads one row more than `limit`, which `pageOf` needs. */
export function newestFirst(limit: number): KeysetPage {
  return { sort: 'created_at', direction: 'desc', rowsMax: limit + 1, after: undefined }
}

/**
 * Like `newestFirst`, but the page begins after the row with the id `cursor`, if there is a cursor. `find` reads this
 * row. Throws `invalid_cursor`.
 */
export async function newestFirstAfter(
  cursor: string | undefined,
  limit: number,
  find: (id: string) => Promise<{ readonly created_at: string } | undefined>,
): Promise<KeysetPage> {
  const firstPage = newestFirst(limit)
  if (cursor === undefined) return firstPage
  const row = await find(cursor)
  if (row === undefined) {
    throw new Problem('invalid_cursor', 'Unknown cursor; start from the first page.')
  }
  return { ...firstPage, after: { value: row.created_at, id: cursor } }
}

/** Like `newestFirstAfter`, but oldest first. */
export async function oldestFirstAfter(
  ...args: Parameters<typeof newestFirstAfter>
): Promise<KeysetPage> {
  return { ...(await newestFirstAfter(...args)), direction: 'asc' }
}

/** Returns the JSON of a list, as in the API. */
export function listOf<T>(data: readonly T[], next: string | null) {
  return { object: 'list', data, has_more: next !== null, next_cursor: next }
}

export type Filters = Readonly<Record<string, string | undefined>>

export function listPath(path: string, filters: Filters): string {
  const set = Object.entries(filters).flatMap(([key, value]) =>
    value === undefined || value === '' ? [] : [[key, value]],
  )
  return set.length === 0 ? path : `${path}?${new URLSearchParams(set).toString()}`
}

/**
 * The maximum number of cursors of previous pages in a link. Older cursors are dropped: after a person has gone back
 * this many pages, Previous leads to the first page of the list.
 */
const TRAIL_MAX = 20

/**
 * Renders links to the previous and the next page, with the current filters. The URL contains the cursors of
 * the previous pages, so that no list needs to be read backwards.
 */
export function renderPager(
  path: string,
  filters: Filters,
  list: Pick<ListQuery, 'cursor' | 'value'>,
  next: string | null,
): Html | undefined {
  const { cursor } = list
  if (cursor === undefined && next === null) return undefined
  // Cursors contain no dots.
  const trail = (list.value('trail') ?? '').split('.').filter((previous) => previous !== '')
  const limit = list.value('limit')
  const linkTo = (to: string | undefined, previous: readonly string[]) =>
    listPath(path, { ...filters, limit, cursor: to, trail: previous.slice(-TRAIL_MAX).join('.') })
  // The first page has no cursor and is therefore not in the trail.
  const nextTrail = cursor === undefined ? [] : [...trail, cursor]
  return html`<nav class="pager" aria-label="Pages">
${cursor !== undefined && html`<a class="button small" href="${linkTo(undefined, [])}">First</a> <a class="button small" href="${linkTo(trail.at(-1), trail.slice(0, -1))}" rel="prev">Previous</a>`}
${next !== null && html`<a class="button small" href="${linkTo(next, nextTrail)}" rel="next">Next</a>`}
</nav>`
}

/** Renders a link with the text `label` to the next page, whose cursor, limit and filters are in `query`. */
export function renderNext(path: string, query: Filters, label: string): Html {
  return html`<p><a class="button" href="${listPath(path, query)}" rel="next">${label}</a></p>`
}

/** The list that contains all rows of a section, and the number of rows that the section shows. */
export interface FullList {
  readonly name: string
  readonly path: string
  readonly shownMax: number
}

/** Renders the first `shownMax` rows. If there are more, also renders a link to the full list. */
export function renderListSection<Row>(
  title: string,
  rows: readonly Row[],
  { name, path, shownMax }: FullList,
  render: (rows: readonly Row[]) => Html,
): Html {
  const id = title.toLowerCase().replaceAll(' ', '-')
  return html`<section aria-labelledby="${id}"><div class="heading"><h2 id="${id}">${title}</h2>
${rows.length > shownMax && html`<a href="${path}">All ${name}</a>`}</div>
${rows.length === 0 ? html`<p class="card hint">None.</p>` : render(rows.slice(0, shownMax))}</section>`
}
