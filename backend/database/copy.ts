/**
 * Copies all records, except derived ones (`DERIVED_TABLES`), from SQLite to PostgreSQL or the reverse. Each table is
 * copied after the tables to which it refers, and its rows are copied in the order of their keys. After an
 * interruption, the next copy continues after the last row of each table in the target.
 */
import { type Kysely, sql } from 'kysely'
import type { Database } from './database.ts'
import { DERIVED_TABLES, readTableShapes, type TableShape } from './shape.ts'

/** SQLite accepts at most 32,766 parameters in one statement, PostgreSQL twice as many. */
const PARAMETERS_MAX = 30_000
const ROWS_MAX = 1000

export interface CopyOptions {
  readonly from: Database
  readonly to: Database
  /** Which of the two databases is SQLite. The list of tables is read from it. */
  readonly sqlite: 'from' | 'to'
  readonly progress: {
    begin(label: string, total: number): void
    advance(count: number): void
    end(): void
  }
}

export interface CopiedTable {
  readonly name: string
  readonly rows: number
  /** The columns whose sums differ (see `compare`), and `*` if the numbers of rows differ; empty if nothing differs. */
  readonly differing: readonly string[]
}

/** Throws if a table of the target contains more or fewer records than an interrupted copy would have left there. */
export async function copyDatabase(options: CopyOptions): Promise<CopiedTable[]> {
  const { from, to, progress } = options
  const all = await inTransaction(options[options.sqlite], readTableShapes)
  const shapes = all.filter(({ name }) => !DERIVED_TABLES.includes(name))
  const copies = []
  for (const shape of shapes) copies.push({ shape, ...(await findResumePoint(from, to, shape)) })
  for (const { shape, last, total, done } of copies) {
    await withProgress(progress, shape.name, total, async () => {
      progress.advance(done)
      await copyTable(options, shape, last)
    })
  }
  const tables: CopiedTable[] = []
  await withProgress(progress, 'compare', shapes.length, async () => {
    for (const shape of shapes) {
      tables.push(await compare(from, to, shape))
      progress.advance(1)
    }
  })
  return tables
}

async function withProgress(
  progress: CopyOptions['progress'],
  label: string,
  total: number,
  work: () => Promise<void>,
): Promise<void> {
  progress.begin(label, total)
  try {
    await work()
  } finally {
    progress.end()
  }
}

type Row = Readonly<Record<string, unknown>>

type Tables = Kysely<Record<string, Record<string, unknown>>>

function inTransaction<T>(database: Database, work: (tx: Tables) => Promise<T>): Promise<T> {
  return database.transaction((tx) => work(tx as unknown as Tables))
}

/**
 * Returns the key of the last row that an earlier run copied (`last`), the number of rows that it copied (`done`), and
 * the number of rows in the source (`total`). Throws if the source has a different number of rows up to the last copied
 * row.
 */
async function findResumePoint(from: Database, to: Database, shape: TableShape) {
  const last = await inTransaction(to, async (tx) => {
    const query = tx
      .selectFrom(shape.name)
      .select([...shape.key])
      .limit(1)
    return query.orderBy(orderOf(shape, 'desc')).executeTakeFirst()
  })
  const done = last === undefined ? 0 : await count(to, shape)
  const expected = last === undefined ? 0 : await count(from, shape, last)
  if (done !== expected) {
    throw new Error(
      `In ${shape.name}, the target has ${done} records, but the source has ${expected} up to the target's last record. Copy to an empty database.`,
    )
  }
  return { last, done, total: await count(from, shape) }
}

async function count(database: Database, shape: TableShape, upTo?: Row): Promise<number> {
  const row = await inTransaction(database, (tx) => {
    const query = tx.selectFrom(shape.name).select(({ fn }) => fn.countAll().as('rows'))
    const bounded =
      upTo === undefined
        ? query
        : query.where(sql<boolean>`${keyOf(shape)} <= ${valuesOf(shape, upTo)}`)
    return bounded.executeTakeFirstOrThrow()
  })
  return Number(row.rows)
}

async function copyTable({ from, to, progress }: CopyOptions, shape: TableShape, after?: Row) {
  let reading = readRows(from, shape, after)
  for (;;) {
    const rows = await reading
    const last = rows.at(-1)
    if (last === undefined) return
    // The next rows are read while these are written.
    reading = readRows(from, shape, last)
    // Without this handler, a read that fails before it is awaited would end the process.
    reading.catch(() => {})
    await inTransaction(to, (tx) =>
      tx
        .insertInto(shape.name)
        .values([...rows])
        .execute(),
    )
    progress.advance(rows.length)
  }
}

function readRows(from: Database, shape: TableShape, after?: Row): Promise<readonly Row[]> {
  const limit = Math.min(ROWS_MAX, Math.floor(PARAMETERS_MAX / shape.columns.length))
  return inTransaction(from, (tx) => {
    const query = tx.selectFrom(shape.name).selectAll().limit(limit)
    const rest =
      after === undefined
        ? query
        : query.where(sql<boolean>`${keyOf(shape)} > ${valuesOf(shape, after)}`)
    return rest.orderBy(orderOf(shape, 'asc')).execute()
  })
}

/** Several columns are compared as one row value, because both databases then use the primary key's index. */
function keyOf({ key }: TableShape) {
  const columns = sql.join(key.map((column) => sql.ref(column)))
  return key.length === 1 ? columns : sql`(${columns})`
}

function valuesOf({ key }: TableShape, row: Row) {
  const values = sql.join(key.map((column) => row[column]))
  return key.length === 1 ? values : sql`(${values})`
}

function orderOf({ key }: TableShape, direction: 'asc' | 'desc') {
  return sql.join(key.map((column) => sql`${sql.ref(column)} ${sql.raw(direction)}`))
}

/** Compares the number of rows and a sum for each column: the sum of its numbers, or of the lengths of its texts. */
async function compare(from: Database, to: Database, shape: TableShape): Promise<CopiedTable> {
  const [source, target] = await Promise.all([sum(from, shape), sum(to, shape)])
  const differing = Object.keys(source).filter((column) => source[column] !== target[column])
  return { name: shape.name, rows: Number(target['*']), differing }
}

async function sum(
  database: Database,
  shape: TableShape,
): Promise<Readonly<Record<string, unknown>>> {
  const sums = shape.columns.map(({ name, isText }) => {
    const value = isText ? sql`length(${sql.ref(name)})` : sql.ref(name)
    // Sums are compared as text, because a sum of amounts may be too large for an exact number.
    return sql`cast(coalesce(sum(${value}), 0) as text) as ${sql.ref(name)}`
  })
  const all = sql`cast(count(*) as text) as ${sql.ref('*')}`
  return inTransaction(database, async (tx) => {
    const { rows } = await sql<
      Record<string, unknown>
    >`select ${sql.join([all, ...sums])} from ${sql.table(shape.name)}`.execute(tx)
    return rows[0] ?? {}
  })
}
