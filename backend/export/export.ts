/**
 * Exports an account as lines of JSON: a header, each row, and finally the number of rows of each table. A file without
 * this last line is incomplete. Rows are read in pages, so that memory does not grow with the account.
 */
import { sql } from 'kysely'
import { readAnyTable } from '../database/any-table.ts'
import type { AccountRow, Reader } from '../database/tables.ts'
import { EXPORTED_TABLES, type ExportedTable } from './tables.ts'

const FORMAT = 'receivables-account-export/1'

const PAGE_ROWS = 500

export interface ExportProgress {
  begin(label: string, total: number): void
  advance(count: number): void
  end(): void
}

/** `read` must read from one snapshot, so that all pages and counts agree. Yields batches of whole lines. */
export async function* exportAccount(
  read: Reader,
  account: AccountRow,
  now: Date,
  progress: ExportProgress,
): AsyncGenerator<string> {
  const tables = EXPORTED_TABLES.map(({ name }) => name)
  const head = { format: FORMAT, account_id: account.id, exported_at: now.toISOString(), tables }
  yield line({ export: head })
  const rows: Record<string, number> = {}
  for (const table of EXPORTED_TABLES) {
    let count = 0
    const total = await countRows(read, table, account.id)
    // A single page needs no progress report.
    const shown = total > PAGE_ROWS ? progress : NO_PROGRESS
    shown.begin(table.name, total)
    for await (const page of readPages(read, table, account.id)) {
      yield page.map((row) => line({ table: table.name, row: represent(table, row) })).join('')
      count += page.length
      shown.advance(page.length)
    }
    shown.end()
    rows[table.name] = count
  }
  yield line({ end: { rows } })
}

const NO_PROGRESS: ExportProgress = { begin() {}, advance() {}, end() {} }

type Row = Readonly<Record<string, unknown>>

async function* readPages(
  read: Reader,
  table: ExportedTable,
  accountId: string,
): AsyncGenerator<readonly Row[]> {
  const key = sql.join(table.key.map((column) => sql.ref(column)))
  const isAfter = (row: Row) =>
    sql<boolean>`(${key}) > (${sql.join(table.key.map((name) => row[name]))})`
  let last: Row | undefined
  for (;;) {
    const all = selectOwned(read, table, accountId)
    const remaining = last === undefined ? all : all.where(isAfter(last))
    const rows: readonly Row[] = await remaining.selectAll().orderBy(key).limit(PAGE_ROWS).execute()
    if (rows.length > 0) yield rows
    if (rows.length < PAGE_ROWS) return
    last = rows.at(-1)
  }
}

async function countRows(read: Reader, table: ExportedTable, accountId: string): Promise<number> {
  const { rows } = await selectOwned(read, table, accountId)
    .select(({ fn }) => fn.countAll().as('rows'))
    .executeTakeFirstOrThrow()
  return Number(rows)
}

function selectOwned(read: Reader, { name, ownedBy }: ExportedTable, accountId: string) {
  const condition = ownedBy?.(accountId) ?? sql<boolean>`account_id = ${accountId}`
  return readAnyTable(read).selectFrom(name).where(condition)
}

function represent({ json = [], withheld = [] }: ExportedTable, row: Row): Row {
  const entries = Object.entries(row)
    .filter(([column]) => !withheld.includes(column))
    .map(([column, value]) => [column, json.includes(column) ? parseJson(value) : value])
  return Object.fromEntries(entries)
}

function parseJson(value: unknown): unknown {
  return typeof value !== 'string' || value === '' ? null : JSON.parse(value)
}

function line(members: object): string {
  return `${JSON.stringify(members)}\n`
}
