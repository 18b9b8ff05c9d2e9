/**
 * Streams a list as CSV. The audit log records each download, because the file can contain the data of all customers.
 */
import { Readable } from 'node:stream'
import { recordAudit } from '../../accounts/audit.ts'
import { escapeFormulas } from '../../import/formulas.ts'
import type { SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { PageResponse } from '../shell/response.ts'

export type Cell = string | number | null

/** Reading all rows at once could use up the memory. */
export const CSV_ROWS_PER_QUERY = 200

/**
 * Reads the rows that follow the cursor `after`; the first rows if it is undefined. `next` is the cursor for the next
 * call; null after the last row.
 */
export type ReadRows = (
  after: string | undefined,
) => Promise<{ readonly rows: readonly (readonly Cell[])[]; readonly next: string | null }>

interface CsvList {
  readonly name: 'customers' | 'invoices' | 'payments'
  /** The current date in the account's time zone, for the file's name. */
  readonly today: string
  readonly head: readonly string[]
}

export async function respondWithCsv(
  { session, actionContext }: SessionRequest,
  { database }: SettingsDeps,
  { name, today, head }: CsvList,
  read: ReadRows,
): Promise<PageResponse> {
  const { id: accountId } = session.account
  await database.transaction((tx) =>
    recordAudit(tx, actionContext, {
      accountId,
      action: 'account.list_downloaded',
      subjectId: accountId,
      detail: { list: name },
    }),
  )
  const content = Readable.from(linesOf(head, read), { objectMode: false })
  return { file: { name: `${name}-${today}.csv`, content } }
}

async function* linesOf(head: readonly string[], read: ReadRows): AsyncGenerator<string> {
  // Spreadsheets detect the encoding by the byte order mark.
  yield `\u{feff}${lineOf(head)}`
  let after: string | undefined
  for (;;) {
    const { rows, next } = await read(after)
    if (rows.length > 0) yield rows.map(lineOf).join('')
    if (next === null) return
    after = next
  }
}

function lineOf(cells: readonly Cell[]): string {
  return `${cells.map(cellOf).join(',')}\r\n`
}

function cellOf(cell: Cell): string {
  if (cell === null) return ''
  if (typeof cell === 'number') return String(cell)
  const text = escapeFormulas(cell)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
