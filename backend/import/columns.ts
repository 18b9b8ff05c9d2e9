/** Maps fields to columns of the file: as requested, or by common header names. */
import { LedgerError } from './ledger-error.ts'

interface Field {
  readonly required: boolean
  /** Header names of the field, only letters and digits in lower case, most likely first. */
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
  due: { required: false, headers: ['duedate', 'due', 'dueon', 'paymentdue'] },
  settled: {
    required: false,
    headers: [
      ...['settleddate', 'settlementdate', 'settled', 'settledon', 'paiddate', 'datepaid'],
      ...['paidon', 'paymentdate', 'cleareddate', 'clearingdate'],
    ],
  },
  name: { required: false, headers: ['customername', 'debtorname', 'clientname', 'companyname'] },
  email: { required: false, headers: ['customeremail', 'debtoremail', 'billingemail', 'email'] },
  currency: { required: false, headers: ['currency', 'currencycode'] },
} as const satisfies Record<string, Field>

export type FieldName = keyof typeof FIELDS

/** Maps each field to the index of its column, from 0. Required fields are present. */
export type Columns = ReadonlyMap<FieldName, number>
/** The header of the column of each field that the file has. */
export type ColumnHeaders = ReadonlyMap<FieldName, string>

export const FIELD_NAMES = Object.keys(FIELDS).filter(isFieldName)
export const REQUIRED_FIELDS = FIELD_NAMES.filter((name) => FIELDS[name].required)
/** Throws `LedgerError` that names the fields without a column, and the headers of the file. */
export function mapColumns(
  headers: readonly string[],
  requested: ReadonlyMap<FieldName, string>,
): Columns {
  const columns = new Map<FieldName, number>()
  const faults: string[] = []
  for (const field of FIELD_NAMES) {
    const header = requested.get(field)
    const places =
      header === undefined ? findByName(headers, field) : findRequested(headers, header)
    const [place] = places
    if (places.length > 1) {
      faults.push(`${field} could be any of ${places.map((at) => headers[at]).join(', ')}`)
    } else if (place !== undefined) {
      columns.set(field, place)
    } else if (header !== undefined && header !== '') {
      faults.push(`${field}=${header} names no column`)
    } else if (FIELDS[field].required) {
      faults.push(`no column was found for ${field}`)
    }
  }
  if (faults.length > 0) {
    throw new LedgerError(
      `The columns are not clear: ${faults.join('; ')}. The file has: ${headers.join(', ')}.`,
      { about: 'columns' },
    )
  }
  return columns
}

export function headersOf(headers: readonly string[], columns: Columns): ColumnHeaders {
  return new Map([...columns].map(([field, place]) => [field, headers[place] ?? '']))
}

function findByName(headers: readonly string[], field: FieldName): number[] {
  const plain = headers.map((header) => header.toLowerCase().replace(/[^\p{L}\p{N}]/gu, ''))
  const known = FIELDS[field].headers.find((name) => plain.includes(name))
  return known === undefined ? [] : placesOf(plain, known)
}

/** An empty header matches no column, which excludes an optional field from the import. */
function findRequested(headers: readonly string[], header: string): number[] {
  return header === '' ? [] : placesOf(headers, header)
}

function placesOf(headers: readonly string[], header: string): number[] {
  return headers.flatMap((candidate, place) => (candidate === header ? [place] : []))
}

export function isFieldName(text: string): text is FieldName {
  return Object.hasOwn(FIELDS, text)
}
