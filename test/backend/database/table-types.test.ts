// The types of the rows in backend/database/tables/ match the tables that the migrations create. The compiler cannot
// check this.
import { globSync, readFileSync } from 'node:fs'
import { sql } from 'kysely'
import t from 'tap'
import { isPostgres, type OpenDatabase } from '../../../backend/database/open.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { newDatabaseUrl } from '../../fixtures/service/database-url.ts'

/** Tables that have no row type, because only the migrations or SQLite use them. */
const UNTYPED = ['schema_migrations', 'sqlite_sequence']

const INTERFACE = /^export interface (\w+) \{\n(.*?)^\}/gms
/** A member of an interface. Its type may continue on lines with more indentation. */
const MEMBER = /^ {2}(\w+): (.*(?:\n {4}.*)*)/gm

/** Returns the columns that the row types declare, sorted. */
function readTypes(): string[] {
  const sources = globSync('backend/database/tables/*.ts').map((file) => readFileSync(file, 'utf8'))
  const interfaces = new Map(
    [...sources.join('\n').matchAll(INTERFACE)].map(([, name = '', body = '']) => [
      name,
      [...body.matchAll(MEMBER)].map(([, member = '', type = '']) => ({ member, type })),
    ]),
  )
  const tables = [...interfaces].flatMap(([name, members]) =>
    name.endsWith('Tables') ? members : [],
  )
  const columns = tables.flatMap(({ member: table, type: row }) =>
    (interfaces.get(row) ?? []).map(({ member, type }) =>
      describe(table, member, /\bnull$/.test(type)),
    ),
  )
  return columns.sort()
}

interface Column {
  readonly table: string
  readonly column: string
  readonly nullable: boolean | number
}

const POSTGRES_COLUMNS = sql<Column>`
  select table_name as "table", column_name as "column", is_nullable = 'YES' as nullable
  from information_schema.columns where table_schema = current_schema()`
/** A primary key counts as not nullable: SQLite would accept null in it, but the code never stores null there. */
const SQLITE_COLUMNS = sql<Column>`
  select tables.name as "table", columns.name as "column", not ("notnull" or pk) as nullable
  from sqlite_schema as tables, pragma_table_info(tables.name) as columns
  where tables.type = 'table'`

/** Returns the columns of the database, sorted. */
async function readSchema(database: OpenDatabase, url: string): Promise<string[]> {
  const columns = isPostgres(url) ? POSTGRES_COLUMNS : SQLITE_COLUMNS
  const { rows } = await database.transaction((tx) => columns.execute(tx))
  return rows
    .filter(({ table }) => !UNTYPED.includes(table))
    .map(({ table, column, nullable }) => describe(table, column, Boolean(nullable)))
    .sort()
}

function describe(table: string, column: string, nullable: boolean): string {
  return `${table}.${column}${nullable ? ' | null' : ''}`
}

t.test('each row type has the columns of its table, with the same nullability', async (t) => {
  const url = await newDatabaseUrl(t)
  const database = await openTestDatabase(t, { url })
  t.strictSame(readTypes(), await readSchema(database, url))
})
