/**
 * Statements of the hottest routes. Kysely builds and compiles a statement anew each time, which takes
 * longer than the database needs to run it. These are compiled once and then only given their values.
 * They are sent to the connection directly, since Kysely's own route to it is a dozen promises long.
 */
import type { Compilable, CompiledQuery, DatabaseConnection } from 'kysely'
import type { Reader, Transaction } from './database.ts'

type Value = string | number | null

/** By name. An array may have any length: each has a form of its own. */
type Values = { readonly [name: string]: Value | readonly Value[] }

type Db = Reader | Transaction

/** Stands for a value while the statement is built. */
class Placeholder {
  readonly name: string
  /** In an array. */
  readonly index: number | undefined

  constructor(name: string, index?: number) {
    this.name = name
    this.index = index
  }
}

/** A statement whose text is one of a few, and that returns rows and no count of affected rows. */
export interface PreparedQuery<Row = unknown> extends CompiledQuery<Row> {
  readonly isPrepared: true
}

export function isPrepared(query: CompiledQuery): query is PreparedQuery {
  return 'isPrepared' in query
}

const connections = new WeakMap<object, DatabaseConnection>()

/** Has prepared statements of `db` sent to its connection, which keeps their order where it matters. */
export function setDirectConnection(db: object, connection: DatabaseConnection): void {
  connections.set(db, connection)
}

/**
 * A write that returns no rows may be sent without waiting for it: where it fails, a later statement
 * throws its error, or the transaction. Nor is a prepared write undone alone where it violates a
 * constraint: it ends the transaction. Whoever would catch that executes another.
 *
 * `build` is called once for each kind of database. It sees no values, only what stands for them: it
 * must not look at them.
 *
 *     const findNote = prepared((db: Reader, { id }: { id: string }) =>
 *       db.selectFrom('notes').selectAll().where('id', '=', id))
 *     const [note] = await findNote(tx, { id })
 */
export function prepared<D extends Db, V extends { readonly [K in keyof V]: Values[string] }, Row>(
  build: (db: D, values: V) => Compilable<Row>,
): (db: D, values: V) => Promise<Row[]> {
  const forms = new WeakMap<object, Map<string, CompiledQuery<Row>>>()

  function formFor(db: D, values: V): CompiledQuery<Row> {
    // One adapter for each kind of database, whoever executes.
    const { adapter } = db.getExecutor()
    const ofKind = forms.get(adapter) ?? new Map<string, CompiledQuery<Row>>()
    const shape = shapeOf(values)
    const known = ofKind.get(shape)
    if (known !== undefined) return known
    const form = build(db, placeholdersOf<V>(Object.entries<Values[string]>(values))).compile()
    forms.set(adapter, ofKind.set(shape, form))
    return form
  }

  return async (db, values) => {
    const { sql, query, queryId, parameters: placeholders } = formFor(db, values)
    const parameters = placeholders.map((value) =>
      value instanceof Placeholder ? valueAt(values, value) : value,
    )
    const compiled: PreparedQuery<Row> = { sql, query, queryId, parameters, isPrepared: true }
    const connection = connections.get(db)
    const { rows } = await (connection?.executeQuery<Row>(compiled) ??
      db.executeQuery<Row>(compiled))
    return rows
  }
}

function shapeOf(values: Values): string {
  let shape = ''
  for (const name in values) {
    const value = values[name]
    shape += isList(value) ? `${name}*${value.length},` : `${name},`
  }
  return shape
}

function placeholdersOf<V>(entries: readonly (readonly [string, Values[string]])[]): V {
  const placeholders = entries.map(([name, value]) => [
    name,
    isList(value) ? value.map((_, index) => new Placeholder(name, index)) : new Placeholder(name),
  ])
  // For the builder they are values of the same types.
  return Object.fromEntries(placeholders)
}

function valueAt(values: Values, { name, index }: Placeholder): Value | undefined {
  const value = values[name]
  return isList(value) ? value[index ?? 0] : value
}

function isList(value: Values[string] | undefined): value is readonly Value[] {
  return Array.isArray(value)
}
