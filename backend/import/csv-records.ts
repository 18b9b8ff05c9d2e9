/** Reads the records of a CSV file, in slices, so that the process can respond to other requests in between. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate } from 'node:timers/promises'
import { CsvError, type CsvErrorCode, type Options, parse } from 'csv-parse'
import { parse as parseSync } from 'csv-parse/sync'
import { LedgerError } from './ledger-error.ts'

export interface FileRecord {
  /** The line on which the record begins, from 1. */
  readonly line: number
  readonly cells: readonly string[]
}

export interface SyntaxFault {
  /** The line on which the cell begins, from 1. */
  readonly line: number
  /** The index of the cell's column, from 0. */
  readonly column: number
  /** E.g. `contains a quotation mark …`; the name of the column precedes it. */
  readonly detail: string
}

/**
 * The maximum length of a row. The parser counts the characters of cells that it has read, and the bytes of the cell
 * that it is reading. Without this limit, an unclosed quote could make the rest of the file one cell.
 */
const RECORD_LENGTH_MAX = 65_536
/** How many characters `readHeaders` reads: the headers, and blank rows before them. */
const HEAD_LENGTH_MAX = 2 * RECORD_LENGTH_MAX
/**
 * The maximum number of columns. The form of Settings contains a list of the columns for each field, so 30,000 columns
 * would make a page of ten megabytes.
 */
const COLUMNS_MAX = 500
/** The number of bytes that are parsed at a time. Parsing them takes some milliseconds. */
const SLICE_BYTES = 4096
/**
 * The maximum number of faults that are collected. It limits the work: after a cell that lacks its closing quotation
 * mark, parsing continues with the second line of the cell, so thousands of lines may be parsed again.
 */
const FAULTS_MAX = 100

const UNCLOSED: readonly CsvErrorCode[] = ['CSV_QUOTE_NOT_CLOSED', 'CSV_MAX_RECORD_SIZE']

/**
 * Returns the headers of the file; an empty list if the first `HEAD_LENGTH_MAX` characters are blank rows. Throws a
 * `LedgerError` if the file is not UTF-8, its headers are not valid CSV, or there are too many columns.
 */
export function readHeaders(bytes: Uint8Array): readonly string[] {
  const file = decode(bytes)
  try {
    const { separatorLine, options } = readSeparator(file)
    const start = separatorLine.length
    // Without this limit, a file that contains only blank rows would block the process for half a second.
    const beginning = file.slice(start, start + HEAD_LENGTH_MAX)
    const [head = []]: string[][] = parseSync(beginning, { ...options, to: 1 })
    checkColumns(head)
    return head.map((cell) => cell.trim())
  } catch (error) {
    throw ledgerErrorOf(error)
  }
}

/**
 * Resolves with the records of the file, of which the first contains the headers. Omits blank rows. After a fault,
 * continues with the line after the one on which the faulty cell begins, so that a person can correct up to
 * `FAULTS_MAX` faults at once. Rejects with a `LedgerError` in the same cases as `readHeaders`.
 */
export async function readRecords(
  bytes: Uint8Array,
): Promise<{ readonly records: readonly FileRecord[]; readonly faults: readonly SyntaxFault[] }> {
  const file = decode(bytes)
  // Unlike `bytes`, the content has no byte order mark.
  const content = Buffer.from(file)
  const { separatorLine, options } = readSeparator(file)
  const records: FileRecord[] = []
  const faults: SyntaxFault[] = []
  let start = advance(content, { line: 1, at: 0 }, Buffer.byteLength(separatorLine))
  while (faults.length < FAULTS_MAX) {
    const error = await readFrom(content, start, options, records)
    if (error === undefined) break
    if (records.length === 0) throw ledgerErrorOf(error)
    const cell = findFaultyCell(content, start, error)
    faults.push({ line: cell.line, column: Number(error['column']), detail: describe(error) })
    start = nextLine(content, cell)
  }
  checkColumns(records[0]?.cells ?? [])
  return { records, faults }
}

function checkColumns({ length }: readonly string[]): void {
  if (length <= COLUMNS_MAX) return
  throw new LedgerError(
    `The file has ${length} columns, and at most ${COLUMNS_MAX} are possible. Remove columns that are not needed.`,
    { about: 'file' },
  )
}

/** Adds the records up to the first error to `records`, and resolves with this error; undefined if there is none. */
async function readFrom(
  content: Buffer,
  start: Position,
  options: Options,
  records: FileRecord[],
): Promise<CsvError | undefined> {
  let end = start
  const parser = parse({
    ...options,
    // The line that the parser reports is not used, because it counts a CR LF within a cell as two lines.
    on_record(cells: string[], { bytes }) {
      end = advance(content, end, start.at + bytes)
      const endsWithBreak = isBreak(content[end.at - 1])
      const breaks = countBreaks(Buffer.from(cells.join(''))) + (endsWithBreak ? 1 : 0)
      records.push({ line: end.line - breaks, cells })
      // If this returned the record, the parser would output it too.
      return null
    },
  })
  // The parser outputs nothing, but the stream does not end unless its output is read, as `resume` does.
  parser.resume()
  try {
    await pipeline(Readable.from(slicesOf(content.subarray(start.at))), parser)
    return undefined
  } catch (error) {
    if (error instanceof CsvError) return error
    throw error
  }
}

/** The offset of a byte in the file (`at`, from 0), and the line of this byte, from 1. */
interface Position {
  readonly line: number
  readonly at: number
}

/**
 * Returns the beginning of the cell with the error. `error.bytes` is the distance from `start` to the end of the
 * previous cell. If the previous cell was the last one of its row, line breaks separate it from the faulty cell.
 */
function findFaultyCell(content: Buffer, start: Position, error: CsvError): Position {
  let at = start.at + Number(error['bytes'])
  while (isBreak(content[at])) at++
  return advance(content, start, at)
}

function nextLine(content: Buffer, from: Position): Position {
  let at = from.at
  while (at < content.length && !isBreak(content[at])) at++
  const isPair = content[at] === CR && content[at + 1] === LF
  return advance(content, from, Math.min(at + (isPair ? 2 : 1), content.length))
}

function advance(content: Buffer, from: Position, to: number): Position {
  return { line: from.line + countBreaks(content.subarray(from.at, to)), at: to }
}

/** Counts a CR LF as one line break. */
function countBreaks(bytes: Buffer): number {
  let count = 0
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] === CR || (bytes[at] === LF && bytes[at - 1] !== CR)) count++
  }
  return count
}

function isBreak(byte: number | undefined): boolean {
  return byte === LF || byte === CR
}

const LF = 10
const CR = 13

function describe({ code }: CsvError): string {
  return UNCLOSED.includes(code)
    ? 'has no closing quotation mark, or the row is longer than 65,536 characters'
    : 'contains a quotation mark in the wrong place, or lacks the closing one. Enclose the whole cell in quotation marks, and double those within it'
}

/**
 * The slices must not be strings: the parser would convert each string separately, and destroy a surrogate pair that is
 * divided between two strings.
 */
async function* slicesOf(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    await setImmediate()
    yield bytes.subarray(at, at + SLICE_BYTES)
  }
}

/**
 * A first line such as `sep=;`, which names the separator for Excel. Other programs may have put the line into
 * quotation marks, or appended separators.
 */
const SEPARATOR_LINE = /^"?sep=([^"\r\n])"?[,;\t]*(?:\r\n|\n|\r|$)/i

function readSeparator(file: string): {
  readonly separatorLine: string
  readonly options: Options
} {
  const [separatorLine = '', separator] = SEPARATOR_LINE.exec(file) ?? []
  return { separatorLine, options: parserOptions(separator ?? findSeparator(file)) }
}

function parserOptions(separator: string): Options {
  return {
    trim: true,
    skip_empty_lines: true,
    // In files that spreadsheets write, an empty row consists of separators.
    skip_records_with_empty_values: true,
    relax_column_count: true,
    delimiter: separator,
    record_delimiter: ['\r\n', '\n', '\r'],
    max_record_size: RECORD_LENGTH_MAX,
  }
}

function ledgerErrorOf(error: unknown): unknown {
  if (!(error instanceof CsvError)) return error
  return new LedgerError(`The file is not valid CSV. ${error.message}`, {
    about: 'file',
    cause: error,
  })
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw new LedgerError('The file is not UTF-8 text. Save it as "CSV UTF-8".', {
      about: 'file',
      cause: error,
    })
  }
}

/** Returns the separator that occurs most often outside of quotes in the first line that is not blank. */
function findSeparator(file: string): string {
  const unquoted = file.slice(0, RECORD_LENGTH_MAX).replace(/"[^"]*"/g, '""')
  const header = /^.*\S.*$/m.exec(unquoted)?.[0] ?? ''
  const count = (separator: string) => header.split(separator).length
  return [',', ';', '\t'].reduce((best, next) => (count(next) > count(best) ? next : best))
}
