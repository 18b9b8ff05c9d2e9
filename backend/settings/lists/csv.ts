/** Streams a list as CSV, page by page with the queries of its HTML page. */
import { Readable } from 'node:stream'

export type Cell = string | number | null

/** Rows per query; bounds memory. */
export const CSV_PAGE = 200

/** Resolves with rows and the cursor of the next ones, which is null after the last row. */
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
 * The characters with which a spreadsheet would begin a formula, at the start of a text or after a semicolon.
 * Where the comma is the decimal mark, programs begin a new cell at a semicolon.
 */
const FORMULA_STARTS = /(?<=^|;\s*)[=+\-@\t\r＝＋－＠]/g

/** Adds an apostrophe before each character that would begin a formula. */
function cellOf(cell: Cell): string {
  if (cell === null) return ''
  if (typeof cell === 'number') return String(cell)
  const text = cell.replace(FORMULA_STARTS, "'$&")
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
