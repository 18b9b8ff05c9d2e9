/**
 * Statements of the hottest ways. Kysely builds and compiles a statement anew each time, which takes
 * longer than the database takes to run it; these are compiled once and then only given their values.
 * They go to the connection itself: Kysely's own way there is a dozen promises long.
 */
import type { Compilable, CompiledQuery, DatabaseConnection } from 'kysely'
import type { Reader, Transaction } from './database.ts'

type Value = string | number | null

/** By name. An array may have any length: each has a form of its own. */
type Values = { readonly [name: string]: Value | readonly Value[] }

type Db = Reader | Transaction

/** Stands for a value while the statement is built. */
class Place {
  readonly name: string
  /** In an array. */
  readonly index: number | undefined

  constructor(name: string, index?: number) {
    this.name = name
    this.index = index
  }
}

const connections = new WeakMap<object, DatabaseConnection>()

/** Lets statements of `db` go to its connection, which keeps them in order where that matters. */
export function openDirectWay(db: object, connection: DatabaseConnection): void {
  connections.set(db, connection)
}

/**
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
    const form = build(db, placesOf<V>(Object.entries<Values[string]>(values))).compile()
    forms.set(adapter, ofKind.set(shape, form))
    return form
  }

  return async (db, values) => {
    const { sql, query, queryId, parameters: places } = formFor(db, values)
    const parameters = places.map((value) =>
      value instanceof Place ? valueAt(values, value) : value,
    )
    const compiled: CompiledQuery<Row> = { sql, query, queryId, parameters }
    const connection = connections.get(db)
    const { rows } = await (connection?.executeQuery<Row>(compiled) ?? db.executeQuery(compiled))
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

function placesOf<V>(entries: readonly (readonly [string, Values[string]])[]): V {
  const places = entries.map(([name, value]) => [
    name,
    isList(value) ? value.map((_, index) => new Place(name, index)) : new Place(name),
  ])
  // For the builder they are values of the same types.
  return Object.fromEntries(places)
}

function valueAt(values: Values, { name, index }: Place): Value | undefined {
  const value = values[name]
  return isList(value) ? value[index ?? 0] : value
}

function isList(value: Values[string] | undefined): value is readonly Value[] {
  return Array.isArray(value)
}
