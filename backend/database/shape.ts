/**
 * Reads the names of the tables and their columns from the catalog of a SQLite database. A copy between SQLite and
 * PostgreSQL uses these names for both databases, because both have the same tables.
 */
import { type Kysely, sql } from 'kysely'

export interface TableShape {
  readonly name: string
  readonly columns: readonly { readonly name: string; readonly isText: boolean }[]
  /** The columns of the primary key, in order. */
  readonly key: readonly string[]
}

/**
 * Tables that triggers and workers derive from the records. They are neither copied to another database nor exported.
 */
export const DERIVED_TABLES: readonly string[] = [
  'ledger_changes',
  'due_totals',
  'debtor_dues',
  'debtor_balances',
  'debtor_standings',
  'debtor_terms',
]

/** Returns the tables, each after the tables to which it refers. */
export async function readTableShapes<T>(db: Kysely<T>): Promise<TableShape[]> {
  const tables = await sql<{ name: string }>`
    select name from sqlite_master
    where type = 'table' and name <> 'schema_migrations'
      and name not like 'sqlite\\_%' escape '\\' and name not like 'kysely\\_%' escape '\\'
    order by name
  `.execute(db)
  const shapes = new Map<string, TableShape>()
  const references = new Map<string, readonly string[]>()
  for (const { name } of tables.rows) {
    shapes.set(name, await readShape(db, name))
    const { rows } = await sql<{ table: string }>`
      select "table" from pragma_foreign_key_list(${name})
    `.execute(db)
    references.set(
      name,
      rows.map((row) => row.table).filter((table) => table !== name),
    )
  }
  const ordered = new Map<string, TableShape>()
  const add = (name: string) => {
    const shape = shapes.get(name)
    if (shape === undefined || ordered.has(name)) return
    for (const table of references.get(name) ?? []) add(table)
    ordered.set(name, shape)
  }
  for (const name of shapes.keys()) add(name)
  return [...ordered.values()]
}

async function readShape<T>(db: Kysely<T>, table: string): Promise<TableShape> {
  const { rows } = await sql<{ name: string; type: string; pk: number }>`
    select name, lower(type) as type, pk from pragma_table_info(${table}) order by cid
  `.execute(db)
  return {
    name: table,
    columns: rows.map(({ name, type }) => ({ name, isText: type === 'text' })),
    key: rows
      .filter(({ pk }) => pk > 0)
      .sort((a, b) => a.pk - b.pk)
      .map(({ name }) => name),
  }
}
