/**
 * Reads a receivables ledger from a CSV file: customers, their invoices, and the dates on which the invoices
 * were paid. The whole file is validated with the rules of the API first, so that an import does not stop halfway at
 * an invalid row.
 */
import { setImmediate } from 'node:timers/promises'
import { addDays } from '../calendar/calendar.ts'
import { currencyExponent } from '../money/money.ts'
import { email } from '../validation/contact.ts'
import { currency, parsed, text } from '../validation/fields.ts'
import { type Check, check, Rejection } from '../validation/rejections.ts'
import {
  type ColumnHeaders,
  type Columns,
  type FieldName,
  headersOf,
  mapColumns,
  REQUIRED_FIELDS,
} from './columns.ts'
import { readRecords } from './csv-records.ts'
import type { DateReader } from './date-format.ts'
import { type DecimalForm, parseDecimal } from './decimal.ts'
import { toExternalId } from './external-ids.ts'
import { unescapeFormulas } from './formulas.ts'
import { LedgerError } from './ledger-error.ts'

export interface LedgerCustomer {
  readonly externalId: string
  /** The id in the file. A customer without a name is given the id as its name. */
  readonly id: string
  /** The name in the first of the customer's rows that contains one. The same applies to `email`. */
  readonly name: string | undefined
  readonly email: string | undefined
}

export interface LedgerInvoice {
  /** The line on which the row begins, from 1. */
  readonly line: number
  readonly number: string
  readonly externalId: string
  readonly customerExternalId: string
  readonly issuedOn: string
  /** Undefined if the service should compute the due date from the payment terms. */
  readonly dueOn: string | undefined
  readonly currency: string
  /** In minor units. */
  readonly amount: number
  /** Undefined if the invoice is not paid. */
  readonly settledOn: string | undefined
  /** The id of the invoice in the service. Only lists that Settings exports contain it, in the column `ID`. */
  readonly serviceId: string | undefined
}

export interface Ledger {
  readonly headers: ColumnHeaders
  /** The customers by external id. */
  readonly customers: ReadonlyMap<string, LedgerCustomer>
  readonly invoices: readonly LedgerInvoice[]
}

export interface LedgerOptions {
  /** The currency of rows without one. If undefined, every row must contain its currency. */
  readonly currency: string | undefined
  readonly dateFormat: string
  readonly readDate: DateReader
  readonly decimalMark: DecimalForm['decimalMark']
  /** The headers that the user assigned to fields. A field with an empty header is not imported. */
  readonly columns: ReadonlyMap<FieldName, string>
  /** The current date in the account's time zone; in UTC if the time zone is not known. */
  readonly today: string
}

/** The API's minimum of `received_on`. */
const SETTLED_ON_MIN = '2000-01-01'
/** The API's maximum length of an external id. */
const EXTERNAL_ID_MAX = 128
const PAYMENT_PREFIX = 'settlement:'
const INVOICE_EXTERNAL_ID_MAX = EXTERNAL_ID_MAX - PAYMENT_PREFIX.length
const TOO_LONG_ENCODED =
  'is too long, because each space and each "%" is stored as at least three characters'
/** The number of rows that are validated before the process responds to other requests. */
const SLICE_ROWS = 50
/**
 * The maximum number of errors that are shown; others are only counted. A file of one megabyte can have half a million
 * errors, which usually have the same cause.
 */
const ERRORS_SHOWN_MAX = 1000

/**
 * Rejects with a `LedgerError` if the file is invalid. The error lists the first `ERRORS_SHOWN_MAX` errors of rows, by
 * line.
 */
export async function readLedger(bytes: Uint8Array, options: LedgerOptions): Promise<Ledger> {
  const {
    records: [head, ...rows],
    faults,
  } = await readRecords(bytes)
  if (head === undefined || rows.length + faults.length === 0) {
    throw new LedgerError('The file must have a line of headers and at least one row.', {
      about: 'file',
    })
  }
  const headers = head.cells.map((cell) => cell.trim())
  const columns = mapColumns(headers, options.columns)
  if (options.currency === undefined && !columns.has('currency')) {
    throw new LedgerError('No column contains the currency of the amounts. Choose the currency.', {
      about: 'currency',
    })
  }
  const rules = rulesOf(options)
  const customers = new Map<string, LedgerCustomer>()
  const invoices = new Map<string, LedgerInvoice>()
  const errors = faults.map(({ line, column, detail }) => ({
    line,
    detail: `${nameOf(headers[column])} ${detail}`,
  }))
  let errorCount = errors.length
  for (const [at, { line, cells }] of rows.entries()) {
    if (at % SLICE_ROWS === 0) await setImmediate()
    const addError = (detail: string) => {
      errorCount++
      // `errors` already contains the faults, which may be in later lines. The list is sorted and shortened below.
      if (errors.length < faults.length + ERRORS_SHOWN_MAX) errors.push({ line, detail })
    }
    if (cells.length !== headers.length) {
      const fields = cells.length === 1 ? '1 field' : `${cells.length} fields`
      addError(`has ${fields}, but the header has ${headers.length}`)
      continue
    }
    const row = readRow({ cells, headers, columns, addError, options, rules })
    if (row === undefined) continue
    const invoice: LedgerInvoice = { line, ...row.invoice }
    const earlier = invoices.get(invoice.externalId)
    if (earlier !== undefined)
      addError(`invoice ${invoice.number} is already on line ${earlier.line}`)
    else invoices.set(invoice.externalId, invoice)
    const known = customers.get(invoice.customerExternalId)
    customers.set(invoice.customerExternalId, {
      ...row.customer,
      name: known?.name ?? row.customer.name,
      email: known?.email ?? row.customer.email,
    })
  }
  if (errors.length > 0) {
    const rowErrors = errors
      .sort((a, b) => a.line - b.line)
      .slice(0, ERRORS_SHOWN_MAX)
      .map(({ line, detail }) => `line ${line}: ${detail}`)
    const message = describeErrors(rowErrors, errorCount)
    throw new LedgerError(message, { about: 'rows', rowErrors, rowErrorCount: errorCount })
  }
  return {
    headers: headersOf(headers, columns),
    customers,
    invoices: [...invoices.values()],
  }
}

/** Returns the external id of the payment that settles an imported invoice. */
export function paymentExternalIdOf(invoice: LedgerInvoice): string {
  return `${PAYMENT_PREFIX}${invoice.externalId}`
}

interface Row {
  readonly cells: readonly string[]
  readonly headers: readonly string[]
  readonly columns: Columns
  readonly addError: (detail: string) => void
  readonly options: LedgerOptions
  readonly rules: Rules
}

/** Returns undefined if the row has an error. */
function readRow({ cells, headers, columns, addError, options, rules }: Row) {
  let isValid = true
  function reject(detail: string) {
    isValid = false
    addError(detail)
  }
  const cell = (field: FieldName) => {
    const index = columns.get(field)
    return unescapeFormulas(((index === undefined ? undefined : cells[index]) ?? '').trim())
  }
  // Errors name the headers of the file, because the people who correct it do not know the names of our fields.
  const named = (field: FieldName) => nameOf(headers[columns.get(field) ?? -1])
  function read<T>(field: FieldName, checkText: CheckText<T>): T | undefined {
    const value = cell(field) === '' ? undefined : checkText(cell(field))
    if (!(value instanceof Rejection)) return value
    return void reject(`${named(field)} "${shown(cell(field))}" ${value.detail}`)
  }
  const number = read('number', rules.number)
  const customer = read('customer', rules.customer)
  const issuedOn = read('issued', rules.date)
  const dueOn = read('due', rules.date)
  const settledOn = read('settled', rules.date)
  const code = cell('currency') === '' ? options.currency : read('currency', rules.currency)
  const amount = code === undefined ? undefined : read('amount', rules.amountIn(code))
  const name = read('name', rules.name)
  const emailAddress = read('email', rules.email)

  if (issuedOn !== undefined && dueOn !== undefined && dueOn < issuedOn) {
    reject(`${named('due')} ${dueOn} is before ${named('issued')} ${issuedOn}`)
  }
  if (settledOn !== undefined && (settledOn < SETTLED_ON_MIN || settledOn > rules.tomorrow)) {
    reject(`${named('settled')} ${settledOn} is not between ${SETTLED_ON_MIN} and tomorrow`)
  }
  const externalId = toExternalId(number ?? '')
  const customerExternalId = toExternalId(customer ?? '')
  if (externalId.length > INVOICE_EXTERNAL_ID_MAX) {
    reject(`${named('number')} ${TOO_LONG_ENCODED}`)
  }
  if (customerExternalId.length > EXTERNAL_ID_MAX) {
    reject(`${named('customer')} ${TOO_LONG_ENCODED}`)
  }

  if (code === undefined && cell('currency') === '') reject(`${named('currency')} is empty`)
  for (const field of REQUIRED_FIELDS) if (cell(field) === '') reject(`${named(field)} is empty`)
  if (!isValid || !number || !customer || !issuedOn || !amount || !code) return undefined
  return {
    invoice: {
      number,
      externalId,
      customerExternalId,
      issuedOn,
      dueOn,
      settledOn,
      amount,
      currency: code,
      serviceId: INVOICE_ID.exec(cells[headers.indexOf('ID')] ?? '')?.[0],
    },
    customer: { externalId: customerExternalId, id: customer, name, email: emailAddress },
  }
}

function nameOf(header: string | undefined): string {
  return header === undefined || header === '' ? 'a column without a header' : shown(header)
}

/**
 * Returns up to 80 characters of the cell. Escapes control characters, which could control the terminal, and invisible
 * characters, such as marks of the writing direction. Otherwise, a rejected date with such a mark would look like a
 * valid one.
 */
export function shown(cell: string): string {
  const json = JSON.stringify(cell.slice(0, 80)).slice(1, -1)
  return json.replace(
    /[\p{Cc}\p{Default_Ignorable_Code_Point}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  )
}

/** These rules are created only once, because creating a rule takes longer than checking a value with it. */
const NUMBER = text({ max: 64 })
const CUSTOMER = text({ max: 128 })
const NAME = text({ max: 200, trim: true })

/** The format of `serviceId`. A file that Settings did not export may have any other text in a column `ID`. */
const INVOICE_ID = /^inv_[0-9A-HJKMNP-TV-Z]{26}$/

type CheckText<T> = (text: string) => T | Rejection

interface Rules {
  readonly number: CheckText<string>
  readonly customer: CheckText<string>
  readonly name: CheckText<string>
  readonly email: CheckText<string>
  readonly currency: CheckText<string>
  readonly date: CheckText<string>
  amountIn(currency: string): CheckText<number>
  /** As in the API, tomorrow is valid, because that day may already have begun at the payer's bank. */
  readonly tomorrow: string
}

function rulesOf({ readDate, dateFormat, decimalMark, today }: LedgerOptions): Rules {
  const amounts = new Map<string, CheckText<number>>()
  return {
    number: (text) => check(NUMBER, text),
    customer: cacheChecks(CUSTOMER),
    name: cacheChecks(NAME),
    email: cacheChecks(email),
    currency: cacheChecks(currency),
    date: cacheChecks(parsed(readDate, `a date that exists, as ${dateFormat}`)),
    amountIn(code) {
      const known = amounts.get(code)
      if (known !== undefined) return known
      const checkText = cacheChecks(createAmountRule(code, decimalMark))
      amounts.set(code, checkText)
      return checkText
    },
    tomorrow: addDays(today, 1),
  }
}

/** The maximum number of cached results per column. */
const CHECKED_MAX = 1000

/** Caches the results, because the cells of a column repeat, such as dates, and checking a text takes long. */
function cacheChecks<T>(rule: Check<T>): CheckText<T> {
  const results = new Map<string, T | Rejection>()
  return (text) => {
    const known = results.get(text)
    if (known !== undefined) return known
    const result = check(rule, text)
    if (results.size >= CHECKED_MAX) results.clear()
    results.set(text, result)
    return result
  }
}

function createAmountRule(code: string, decimalMark: DecimalForm['decimalMark']): Check<number> {
  const exponent = currencyExponent(code)
  const decimals = '56789'.slice(0, exponent)
  const example =
    exponent === 0
      ? '1234'
      : `1234${decimalMark}${decimals} or 1${decimalMark === '.' ? ',' : '.'}234${decimalMark}${decimals}`
  return parsed(
    (value) => parseDecimal(value, { exponent, decimalMark }),
    `an amount of ${code} above 0, such as ${example} (credit notes cannot be imported)`,
  )
}

function describeErrors(rowErrors: readonly string[], errorCount: number): string {
  const more = errorCount - rowErrors.length
  return [
    `The file has ${errorCount} ${errorCount === 1 ? 'error' : 'errors'}. Nothing was imported.`,
    ...rowErrors.map((error) => `  ${error}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
  ].join('\n')
}
