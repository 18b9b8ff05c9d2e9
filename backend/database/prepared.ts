/**
 * Prepared statements for the most frequent routes. Kysely compiles a statement each time, which takes longer than the
 * database needs to run it. Prepared statements are compiled once. They are sent to the connection directly, because
 * Kysely awaits a dozen promises before it sends a statement.
 */
import type { Compilable, CompiledQuery, DatabaseConnection } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { Reader, Transaction } from './database.ts'

type Value = string | number | null

/** Values by name. Each length of an array, up to `ARRAY_LENGTH_MAX`, has its own statement. */
type Values = { readonly [name: string]: Value | readonly Value[] }

type Db = Reader | Transaction

/** Represents a value while the statement is built. */
class Placeholder {
  readonly name: string
  /** The index in the array with this name; undefined if the value is not an array. */
  readonly index: number | undefined

  constructor(name: string, index?: number) {
    this.name = name
    this.index = index
  }
}

/**
 * A statement whose text depends only on the names of its values and on the lengths of its arrays, so that a connection
 * can keep it prepared. Its result has rows, but no count of affected rows.
 */
export interface PreparedQuery<Row = unknown> extends CompiledQuery<Row> {
  readonly isPrepared: true
}

export function isPrepared(query: CompiledQuery): query is PreparedQuery {
  return 'isPrepared' in query
}

/** A query for a page of a list. Its text varies with the filters of the list. */
export interface PreparedPage<Row = unknown> extends CompiledQuery<Row> {
  readonly isPage: true
}

export function isPreparedPage(query: CompiledQuery): query is PreparedPage {
  return 'isPage' in query
}

const connections = new WeakMap<object, DatabaseConnection>()

/** Makes prepared statements of `db` bypass Kysely: they are sent directly to `connection`. */
export function setDirectConnection(db: object, connection: DatabaseConnection): void {
  connections.set(db, connection)
}

/**
 * A statement with a longer array is compiled for each use. Clients determine the length, e.g. by the number of
 * invoices that a payment pays, so keeping a statement for each length would use up the memory.
 */
const ARRAY_LENGTH_MAX = 100

/**
 * Compiles a statement once and runs it with different values.
 *
 * A write that returns no rows may be sent without waiting for its result: if it fails, a later statement or the
 * transaction throws its error. If a prepared write violates a constraint, the whole transaction fails. Code that must
 * catch a violation uses a write that is not prepared.
 *
 * `build` is called once for each kind of connection and each combination of names and array lengths, except for long
 * arrays. It receives placeholders instead of values, so it must not depend on the values.
 *
 *     const findNote = prepared((db: Reader, { id }: { id: string }) =>
 *       db.selectFrom('notes').selectAll().where('id', '=', id))
 *     const [note] = await findNote(tx, { id })
 */
export function prepared<D extends Db, V extends { readonly [K in keyof V]: Values[string] }, Row>(
  build: (db: D, values: V) => Compilable<Row>,
): (db: D, values: V) => Promise<Row[]> {
  const statements = new WeakMap<object, Map<string, CompiledQuery<Row>>>()

  function statementFor(db: D, values: V, shape: string): CompiledQuery<Row> {
    // There are three adapters, each shared by all connections of a kind: those of PostgreSQL, single connections of
    // SQLite, and pools of SQLite.
    const { adapter } = db.getExecutor()
    const statementsOfKind = statements.get(adapter) ?? new Map<string, CompiledQuery<Row>>()
    const known = statementsOfKind.get(shape)
    if (known !== undefined) return known
    const placeholders = placeholdersOf<V>(Object.entries<Values[string]>(values))
    const statement = build(db, placeholders).compile()
    statements.set(adapter, statementsOfKind.set(shape, statement))
    return statement
  }

  return async (db, values) => {
    const shape = shapeOf(values)
    if (shape === undefined) return await run(db, build(db, values).compile())
    const statement = statementFor(db, values, shape)
    const compiled: PreparedQuery<Row> = { ...withValues(statement, values), isPrepared: true }
    return await run(db, compiled)
  }
}

/** The maximum number of compiled statements of one list: one for each combination of filters and `variant`. */
const PAGE_STATEMENTS_MAX = 500

/**
 * Like `prepared`, for the query for a page of a list. `variant` becomes part of the SQL text, because the best plan
 * may depend on it: the sort, the size of the page, and values with few alternatives, such as a status. All other
 * values are passed in `values`.
 */
export function preparedPage<V extends { readonly [K in keyof V]: string }, F extends object, Row>(
  build: (reader: Reader, values: V, variant: F) => Compilable<Row>,
): (reader: Reader, values: V, variant: F) => Promise<Row[]> {
  const statements = new WeakMap<object, LRUCache<string, CompiledQuery<Row>>>()
  return async (reader, values, variant) => {
    const { adapter } = reader.getExecutor()
    const statementsOfKind = statements.get(adapter) ?? new LRUCache({ max: PAGE_STATEMENTS_MAX })
    statements.set(adapter, statementsOfKind)
    const key = `${shapeOf(values)} ${JSON.stringify(variant)}`
    let compiled = statementsOfKind.get(key)
    if (compiled === undefined) {
      const placeholders = placeholdersOf<V>(Object.entries<string>(values))
      compiled = build(reader, placeholders, variant).compile()
      statementsOfKind.set(key, compiled)
    }
    const page: PreparedPage<Row> = { ...withValues(compiled, values), isPage: true }
    return await run(reader, page)
  }
}

function withValues<Row>(
  { sql, query, queryId, parameters }: CompiledQuery<Row>,
  values: Values,
): CompiledQuery<Row> {
  const bound = parameters.map((value) =>
    value instanceof Placeholder ? valueAt(values, value) : value,
  )
  return { sql, query, queryId, parameters: bound }
}

async function run<Row>(db: Db, compiled: CompiledQuery<Row>): Promise<Row[]> {
  const connection = connections.get(db)
  const { rows } = await (connection?.executeQuery<Row>(compiled) ?? db.executeQuery<Row>(compiled))
  return rows
}

/**
 * Identifies a statement of one builder by the names of the values and the lengths of the arrays. Returns undefined if
 * an array is longer than `ARRAY_LENGTH_MAX`.
 */
function shapeOf(values: Values): string | undefined {
  let shape = ''
  for (const name in values) {
    const value = values[name]
    if (isList(value) && value.length > ARRAY_LENGTH_MAX) return undefined
    shape += isList(value) ? `${name}*${value.length},` : `${name},`
  }
  return shape
}

function placeholdersOf<V>(entries: readonly (readonly [string, Values[string]])[]): V {
  const placeholders = entries.map(([name, value]) => [
    name,
    isList(value) ? value.map((_, index) => new Placeholder(name, index)) : new Placeholder(name),
  ])
  // The builder treats placeholders as values of the same types.
  return Object.fromEntries(placeholders)
}

function valueAt(values: Values, { name, index }: Placeholder): Value | undefined {
  const value = values[name]
  return isList(value) ? value[index ?? 0] : value
}

function isList(value: Values[string] | undefined): value is readonly Value[] {
  return Array.isArray(value)
}
