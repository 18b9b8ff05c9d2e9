import { Problem } from '../../../shared/contract/problem.ts'
import { FIELD_NAMES, type FieldName } from '../../import/columns.ts'
import { readHeaders } from '../../import/csv-records.ts'
import { dateReader } from '../../import/date-format.ts'
import { type Ledger, readLedger } from '../../import/ledger.ts'
import { LedgerError } from '../../import/ledger-error.ts'
import { parseCurrency } from '../../money/money.ts'
import { rejectField } from '../shell/faults.ts'
import type { ExpectedFields, Fields } from '../shell/fields.ts'
import { plural } from '../shell/words.ts'

/** Enough for about 10,000 invoices. It leaves room for the other fields in a body of 1 MiB. */
const FILE_BYTES_MAX = 950_000
const FILE_NAME_LENGTH_MAX = 200

export const DATE_FORMATS = [
  ...['YYYY-MM-DD', 'D.M.YYYY', 'D/M/YYYY', 'M/D/YYYY', 'D-M-YYYY', 'YYYY/MM/DD', 'YYYYMMDD'],
] as const

/**
 * What a request does, by its field `step`. `preview` compares the file with the stored records and records nothing.
 * `edit` shows the form again. `record` records for a few seconds (see `import-step.ts`); the page repeats it until the
 * import is complete.
 */
export const STEPS = ['preview', 'record', 'edit'] as const
export type Step = (typeof STEPS)[number]

export const columnFieldOf = (field: FieldName) => `column_${field}`

/**
 * Hidden fields pass the number of `recorded` records, the rejected records (`refusals`) and the import's id to the
 * next step.
 */
export const IMPORT_FIELDS: ExpectedFields = {
  texts: [
    ...['file', 'file_name', 'step', 'date_format', 'currency', 'decimal_comma'],
    ...['chase_overdue', 'correct', 'recorded', 'refusals', 'import_id'],
    ...FIELD_NAMES.map(columnFieldOf),
  ],
  file: 'file',
}

export interface ImportForm {
  readonly content: string
  readonly fileName: string
  readonly dateFormat: string
  readonly currency: string
  readonly isDecimalComma: boolean
  readonly chaseOverdue: boolean
  /** Whether recorded data that differs from the file is corrected. */
  readonly correctsRecords: boolean
  /**
   * The headers of the chosen columns, by field. A field with an empty header is not imported. For a field that is
   * absent, the import recognizes the column by its header.
   */
  readonly columns: ReadonlyMap<FieldName, string>
  /** Empty if no file was sent, or if its headers cannot be read. */
  readonly headers: readonly string[]
}

export function readForm(fields: Fields): ImportForm {
  const content = fields.text('file')
  const isSet = (name: string) => fields.text(name) !== '' && fields.text(name) !== 'false'
  return {
    content,
    fileName: readFileName(fields.text('file_name')) || 'file.csv',
    dateFormat: fields.text('date_format'),
    currency: fields.text('currency').trim().toUpperCase(),
    isDecimalComma: isSet('decimal_comma'),
    chaseOverdue: isSet('chase_overdue'),
    correctsRecords: isSet('correct'),
    columns: new Map(
      FIELD_NAMES.flatMap((field) => {
        const name = columnFieldOf(field)
        const isChosen = fields.has(name) && fields.text(name) !== AUTO
        return isChosen ? [[field, fields.text(name).trim()] as const] : []
      }),
    ),
    headers: headersOf(content),
  }
}

/**
 * If the import is taken back, the file name becomes part of the reason for which invoices are voided and payments
 * reversed. Reasons must not contain control characters.
 */
function readFileName(text: string): string {
  const cleaned = text.replaceAll(/\p{Cc}/gu, ' ').trim()
  return [...cleaned].slice(0, FILE_NAME_LENGTH_MAX).join('')
}

/** The choice that lets the import recognize a column by its header. */
export const AUTO = 'auto'

function headersOf(content: string): readonly string[] {
  try {
    return readHeaders(Buffer.from(content))
  } catch (error) {
    if (error instanceof LedgerError) return []
    throw error
  }
}

/** Throws `validation_failed` for an invalid option, or with the first `ROW_ERRORS_MAX` errors of the file. */
export async function parseFile(form: ImportForm, today: string): Promise<Ledger> {
  const bytes = Buffer.from(form.content)
  if (bytes.length === 0) rejectField('file', 'Choose a CSV file.')
  if (bytes.length > FILE_BYTES_MAX) {
    rejectField(
      'file',
      'The file is larger than 950 KB. Split it, or ask the operator to import it from the command line.',
    )
  }
  // In the content of an uploaded file, U+FFFD has replaced bytes that are not UTF-8.
  if (form.content.includes('\u{fffd}')) {
    rejectField('file', 'The file is not UTF-8 text. Save it as “CSV UTF-8”.')
  }
  if (form.dateFormat === '') rejectField('date_format', 'Choose the date format of the file.')
  const currency = form.currency === '' ? undefined : parseCurrency(form.currency)
  if (form.currency !== '' && currency === undefined) {
    rejectField('currency', 'The currency must be a three-letter ISO 4217 code, e.g. EUR.')
  }
  try {
    return await readLedger(bytes, {
      currency,
      dateFormat: form.dateFormat,
      readDate: dateReader(form.dateFormat),
      decimalMark: form.isDecimalComma ? ',' : '.',
      columns: form.columns,
      today,
    })
  } catch (error) {
    if (error instanceof LedgerError) throw problemOf(error)
    throw error
  }
}

/** The fields of the form that show an error, by what the error is about. */
const FAULT_FIELDS = {
  columns: 'columns',
  currency: 'currency',
  date_format: 'date_format',
  file: 'file',
  rows: 'file',
} as const

/** The maximum number of row errors in a response: far more than a person corrects before the next try. */
const ROW_ERRORS_MAX = 200

function problemOf({ message, about, rowErrors, rowErrorCount }: LedgerError): Problem {
  const pointer = `/${FAULT_FIELDS[about]}`
  const more = rowErrorCount - ROW_ERRORS_MAX
  const details = [
    ...rowErrors
      .slice(0, ROW_ERRORS_MAX)
      .map((error) => `${error[0]?.toUpperCase()}${error.slice(1)}.`),
    ...(more > 0 ? [`And ${plural(more, 'more error')}.`] : []),
  ]
  const errors = (rowErrors.length === 0 ? [message] : details).map((detail) => ({
    ...{ pointer, code: 'invalid_format', detail },
  }))
  const detail =
    rowErrors.length === 0
      ? message
      : `The file has ${rowErrorCount === 1 ? 'one error' : `${rowErrorCount} errors`}. Nothing was recorded.`
  return new Problem('validation_failed', detail, { members: { errors } })
}
