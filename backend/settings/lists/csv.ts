/** Streams a list as CSV. The rows are read page by page, with the same queries as for the HTML page. */
import { Readable } from 'node:stream'

export type Cell = string | number | null

/** How many rows one query reads. Reading all rows at once could use up the memory. */
export const CSV_PAGE = 200

/** Resolves with rows and the cursor of the next rows. The cursor is null after the last row. */
export type ReadRows = (
  after: string | undefined,
) => Promise<{ readonly rows: readonly (readonly Cell[])[]; readonly next: string | null }>

export function csvOf(head: readonly string[], read: ReadRows): Readable {
  return Readable.from(linesOf(head, read), { objectMode: false })
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

/**
 * Characters at the start of a text or after a semicolon that make a spreadsheet program read a formula. Semicolons
 * matter because they separate cells in countries in which the decimal mark is a comma.
 */
const FORMULA_STARTS = /(?<=^|;\s*)[=+\-@\t\r＝＋－＠]/g

/** Adds an apostrophe before each character that would begin a formula. */
function cellOf(cell: Cell): string {
  if (cell === null) return ''
  if (typeof cell === 'number') return String(cell)
  const text = cell.replace(FORMULA_STARTS, "'$&")
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
