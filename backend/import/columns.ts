/**
 * Maps fields to columns of the imported file: by the header that the user has chosen for the field or, if none was
 * chosen, by common header names. If the user has chosen an empty header, the field is not imported, even if the file
 * has a column for it.
 */
import { LedgerError } from './ledger-error.ts'

interface Field {
  readonly required: boolean
  /** Common header names of the field, in lower case and with letters and digits only, the most likely first. */
  readonly headers: readonly string[]
}

const FIELDS = {
  number: {
    required: true,
    headers: ['invoicenumber', 'invoiceno', 'invoicenr', 'invoiceid', 'invoice', 'number'],
  },
  customer: {
    required: true,
    headers: [
      ...['customerid', 'customernumber', 'customerno', 'customernr', 'debtorid', 'debtornumber'],
      ...['debtorno', 'clientid', 'customercode', 'customer', 'debtor', 'client'],
    ],
  },
  issued: { required: true, headers: ['invoicedate', 'issuedate', 'issued', 'issuedon', 'date'] },
  amount: {
    required: true,
    headers: ['invoiceamount', 'totalamount', 'amount', 'invoicetotal', 'total'],
  },
  due: { required: false, headers: ['duedate', 'dueon', 'paymentdue', 'due'] },
  settled: {
    required: false,
    headers: [
      ...['settleddate', 'settlementdate', 'settled', 'settledon', 'paiddate', 'datepaid'],
      ...['paidon', 'paymentdate', 'cleareddate', 'clearingdate'],
    ],
  },
  name: {
    required: false,
    headers: [
      ...['customername', 'debtorname', 'clientname', 'companyname'],
      // The field `customer`, which is mapped before `name`, accepts these headers too. The field `name` gets such a
      // column only if `customer` is mapped to another one.
      ...['customer', 'debtor', 'client'],
    ],
  },
  email: { required: false, headers: ['customeremail', 'debtoremail', 'billingemail', 'email'] },
  currency: { required: false, headers: ['currency', 'currencycode'] },
} as const satisfies Record<string, Field>

export type FieldName = keyof typeof FIELDS

/** Maps each field to the index of its column, from 0. Required fields are present. */
export type Columns = ReadonlyMap<FieldName, number>
/** Maps each field to the header of its column. */
export type ColumnHeaders = ReadonlyMap<FieldName, string>

export const FIELD_NAMES = Object.keys(FIELDS).filter(isFieldName)
export const REQUIRED_FIELDS = FIELD_NAMES.filter((name) => FIELDS[name].required)

/**
 * Throws a `LedgerError` that names the headers of the file, and the fields whose columns are missing, ambiguous, or
 * not found under the requested header.
 */
export function mapColumns(
  headers: readonly string[],
  requested: ReadonlyMap<FieldName, string>,
): Columns {
  const columns = new Map<FieldName, number>()
  const errors: string[] = []
  for (const field of FIELD_NAMES) {
    const header = requested.get(field)
    const indexes =
      header === undefined
        ? findByName(headers, field, [...columns.values()])
        : findRequested(headers, header)
    const [index] = indexes
    if (indexes.length > 1) {
      errors.push(
        `${field} could be any of the columns ${indexes.map((at) => headers[at]).join(', ')}`,
      )
    } else if (index !== undefined) {
      columns.set(field, index)
    } else if (header !== undefined && header !== '') {
      errors.push(`${field}=${header} names no column`)
    } else if (FIELDS[field].required) {
      errors.push(`no column was found for ${field}`)
    }
  }
  if (errors.length > 0) {
    throw new LedgerError(
      `The columns cannot be determined: ${errors.join('; ')}. The file has: ${headers.join(', ')}.`,
      { about: 'columns' },
    )
  }
  return columns
}

export function headersOf(headers: readonly string[], columns: Columns): ColumnHeaders {
  return new Map([...columns].map(([field, index]) => [field, headers[index] ?? '']))
}

function findByName(
  headers: readonly string[],
  field: FieldName,
  used: readonly number[],
): number[] {
  const normalized = headers.map((header, index) =>
    used.includes(index) ? '' : header.toLowerCase().replace(/[^\p{L}\p{N}]/gu, ''),
  )
  const known = FIELDS[field].headers.find((name) => normalized.includes(name))
  return known === undefined ? [] : indexesOf(normalized, known)
}

function findRequested(headers: readonly string[], header: string): number[] {
  return header === '' ? [] : indexesOf(headers, header)
}

function indexesOf(headers: readonly string[], header: string): number[] {
  return headers.flatMap((candidate, index) => (candidate === header ? [index] : []))
}

export function isFieldName(text: string): text is FieldName {
  return Object.hasOwn(FIELDS, text)
}
