/**
 * Pages of lists as JSON. PostgreSQL returns each column of a page as one JSON text, which costs PostgreSQL and the
 * backend less CPU time than hundreds of single values, or than one JSON text per row.
 */
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { compileRow } from '../combined-reads.ts'
import { INT8, parseWhole } from './types.ts'

/** The maximum number of cached statements: the text of a list's query varies with its filters. */
const STATEMENTS_MAX = 500

type Row = Record<string, unknown>

interface JsonPageQuery {
  readonly columns: readonly string[]
  /** The columns of large numbers, which are sent as text because JSON.parse would round them. */
  readonly large: ReadonlySet<string>
  /** The SQL that returns each column of the page as a JSON array. */
  readonly text: string
  readonly toRow: (valuesByColumn: unknown[][], index: number) => Row
}

export class JsonPageQueries {
  readonly #queries = new LRUCache<string, JsonPageQuery>({ max: STATEMENTS_MAX })

  /** Returns undefined if the columns of the list are not known yet (see `add`), or cannot be sent as JSON. */
  find(sql: string): JsonPageQuery | undefined {
    return this.#queries.get(sql)
  }

  /** Called after `sql` was first run, without JSON. `fields` are the columns of its result, with their types. */
  add(sql: string, fields: readonly pg.FieldDef[]): void {
    if (this.#queries.has(sql)) return
    const columns = fields.map(({ name }) => name)
    // Columns with the same name could not be distinguished.
    if (new Set(columns).size < columns.length) return
    if (
      !fields.every(
        ({ dataTypeID }) => TYPES_UNCHANGED_BY_JSON.has(dataTypeID) || dataTypeID === INT8,
      )
    )
      return
    const large = new Set(
      fields.filter(({ dataTypeID }) => dataTypeID === INT8).map(({ name }) => name),
    )
    const expressions = columns.map(
      (name) => `json_agg(found."${name}"${large.has(name) ? '::text' : ''})::text`,
    )
    const text = `select ${expressions} from (${sql}) as found`
    // In the compiled function, `values` is the first argument of `toRow`: the values by column.
    const toRow = compileRow<unknown[][]>(columns, (at) => `values[${at}][index]`)
    this.#queries.set(sql, { columns, large, text, toRow })
  }
}

/** The types whose values are the same from the driver and from `JSON.parse`: boolean, int2, int4, text and varchar. */
const TYPES_UNCHANGED_BY_JSON = new Set([16, 21, 23, 25, 1043])

/** Converts the columns of a page to rows. */
export function rowsOf({ columns, large, toRow }: JsonPageQuery, texts: readonly unknown[]): Row[] {
  const valuesByColumn = columns.map((name, at) => {
    const text = texts[at]
    // An empty page has null for each column.
    const values: unknown[] = typeof text === 'string' ? JSON.parse(text) : []
    return large.has(name) ? values.map(largeNumberOf) : values
  })
  const [first = []] = valuesByColumn
  return first.map((_, index) => toRow(valuesByColumn, index))
}

function largeNumberOf(value: unknown): unknown {
  return typeof value === 'string' ? parseWhole(value) : value
}
