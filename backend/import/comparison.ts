/** Compares a file with the records of the service. */
import { currencyExponent } from '../money/money.ts'
import { formatMinor } from './decimal.ts'
import {
  type Ledger,
  type LedgerCustomer,
  type LedgerInvoice,
  paymentExternalIdOf,
} from './ledger.ts'
import type { InvoiceRecord, PaymentRecord, ServiceRecords } from './records.ts'

export interface RowWithMissingRecords {
  readonly invoice: LedgerInvoice
  /** Undefined if the service does not have the invoice. */
  readonly invoiceId: string | undefined
  /**
   * Whether the file shows the invoice as paid, the service does not have this payment, and no difference prevents an
   * import from recording it.
   */
  readonly canRecordPayment: boolean
}

export interface Difference {
  readonly line: number
  /** E.g. `invoice 0000611365` or `payment settlement:0000611365`. */
  readonly record: string
  readonly field: string
  /** The value of the field in the file. */
  readonly file: string
  /** The value of the field in the service's record. */
  readonly service: string
}

export interface Totals {
  invoices: number
  invoiced: bigint
  payments: number
  paid: bigint
  /** The amount due on open invoices. */
  open: bigint
}

export interface Comparison {
  /** The customers that the service does not have, if an invoice of theirs is missing too. */
  readonly missingCustomers: readonly LedgerCustomer[]
  readonly rowsWithMissingRecords: readonly RowWithMissingRecords[]
  readonly differences: readonly Difference[]
  /** The totals by currency. The sums of the service include only records that are also in the file. */
  readonly totals: ReadonlyMap<string, { readonly file: Totals; readonly service: Totals }>
  /** How many of the service's invoices that were passed to `compare` are not in the file. */
  readonly otherInvoices: number
}

const OPEN_STATUSES = ['open', 'partially_paid']

export function compare(ledger: Ledger, records: ServiceRecords): Comparison {
  const debtorExternalIds = new Set(records.debtors.map((debtor) => debtor.external_id))
  const externalIdsByDebtor = new Map(
    records.debtors.map((debtor) => [debtor.id, debtor.external_id]),
  )
  const findRecord = invoiceFinder(records.invoices)
  const payments = new Map(records.payments.map((payment) => [payment.external_id, payment]))

  const rowsWithMissingRecords: RowWithMissingRecords[] = []
  const differences: Difference[] = []
  const totals = new Map<string, { file: Totals; service: Totals }>()
  const found = new Set<string>()
  function totalsOf(currency: string) {
    const known = totals.get(currency) ?? { file: emptyTotals(), service: emptyTotals() }
    totals.set(currency, known)
    return known
  }
  for (const invoice of ledger.invoices) {
    addInvoice(totalsOf(invoice.currency).file, invoice)
    const record = findRecord(invoice)
    const payment = payments.get(paymentExternalIdOf(invoice))
    const invoiceDifferences =
      record === undefined ? [] : compareInvoice(invoice, record, externalIdsByDebtor)
    const isSettledInFile = invoice.settledOn !== undefined
    if (payment !== undefined) invoiceDifferences.push(...comparePayment(invoice, payment, record))
    else if (record !== undefined) invoiceDifferences.push(...compareSettledAmount(invoice, record))
    differences.push(...invoiceDifferences)

    if (record !== undefined) {
      found.add(record.id)
      addInvoiceRecord(totalsOf(record.currency).service, record)
    }
    if (payment?.status === 'recorded') {
      addPaymentRecord(totalsOf(payment.currency).service, payment)
    }
    const canRecordPayment =
      isSettledInFile && payment === undefined && !invoiceDifferences.some(preventsPayment)
    if (record === undefined || canRecordPayment) {
      rowsWithMissingRecords.push({ invoice, invoiceId: record?.id, canRecordPayment })
    }
  }
  const customersOfMissingInvoices = new Set(
    rowsWithMissingRecords.flatMap(({ invoice, invoiceId }) =>
      invoiceId === undefined ? [invoice.customerExternalId] : [],
    ),
  )
  return {
    missingCustomers: [...ledger.customers.values()].filter(
      ({ externalId }) =>
        !debtorExternalIds.has(externalId) && customersOfMissingInvoices.has(externalId),
    ),
    rowsWithMissingRecords,
    differences,
    totals,
    otherInvoices: records.invoices.length - found.size,
  }
}

/**
 * Returns a function that finds the record of an invoice of the file: first by the service's id, because a spreadsheet
 * may have changed the number, e.g. 001 to 1; then by external id; then, for invoices that were not imported, by
 * number, which is unique in an account.
 */
export function invoiceFinder(
  records: readonly InvoiceRecord[],
): (invoice: LedgerInvoice) => InvoiceRecord | undefined {
  // Taking back an import voids its invoices and frees their external ids and numbers. They must not be found by
  // their ids either, so that the file can be imported again.
  const ids = new Map(
    records.filter(({ status }) => status !== 'void').map((record) => [record.id, record]),
  )
  const externalIds = new Map(records.map((record) => [record.external_id, record]))
  const numbers = new Map(records.map((record) => [record.number, record]))
  return ({ serviceId = '', externalId, number }) =>
    ids.get(serviceId) ?? externalIds.get(externalId) ?? numbers.get(number)
}

/** Counts the missing records that an import can record. */
export function countMissing({ missingCustomers, rowsWithMissingRecords }: Comparison) {
  return {
    customers: missingCustomers.length,
    invoices: rowsWithMissingRecords.filter(({ invoiceId }) => invoiceId === undefined).length,
    payments: rowsWithMissingRecords.filter(({ canRecordPayment }) => canRecordPayment).length,
  }
}

function compareInvoice(
  invoice: LedgerInvoice,
  record: InvoiceRecord,
  externalIdsByDebtor: ReadonlyMap<string, string | null>,
): Difference[] {
  return differencesIn(invoice, `invoice ${invoice.number}`, [
    // A difference of the numbers is reported only for a record that was found by its id. Other records were found by
    // the number, or by the external id, which imports derive from the number.
    ['number', invoice.number, invoice.serviceId === record.id ? record.number : invoice.number],
    [
      'customer',
      invoice.customerExternalId,
      externalIdsByDebtor.get(record.debtor_id) ?? record.debtor_id,
    ],
    ['amount', ...amountTexts(invoice, record)],
    ['issue date', invoice.issuedOn, record.issue_date],
    ['due date', invoice.dueOn ?? record.due_date, record.due_date],
    // `comparePayment` and `compareSettledAmount` report the difference between open and paid.
    ['status', 'open or paid', isOpenOrPaid(record.status) ? 'open or paid' : record.status],
  ])
}

/**
 * A difference can mean that the record is another invoice, or that its payment is already recorded, so a person must
 * check the record before a payment is recorded. A different due date means neither. If it prevented the payment, a
 * customer who has paid would be reminded.
 */
function preventsPayment({ field }: Difference): boolean {
  return field !== 'due date'
}

function comparePayment(
  invoice: LedgerInvoice,
  payment: PaymentRecord,
  record: InvoiceRecord | undefined,
): Difference[] {
  const [allocation] = payment.allocations
  return differencesIn(invoice, `payment ${paymentExternalIdOf(invoice)}`, [
    ['settled', invoice.settledOn ?? 'no', payment.received_on],
    ['amount', ...amountTexts(invoice, payment)],
    ['status', 'recorded', payment.status],
    ['invoice', record?.id ?? 'none', allocation?.invoice_id ?? 'none'],
  ])
}

/**
 * Reports an invoice on which something was paid or credited, although no import has recorded its payment. The file may
 * list the invoice as open or as settled.
 */
function compareSettledAmount(invoice: LedgerInvoice, record: InvoiceRecord): Difference[] {
  const { currency, amount, amount_due: due } = record
  if (due === amount) return []
  const settled = describeMoney({ currency, amount: amount - due })
  return differencesIn(invoice, `invoice ${invoice.number}`, [
    ['settled', invoice.settledOn ?? 'no', `${settled} settled by other payments or credits`],
  ])
}

function amountTexts(file: Money, service: Money): [string, string] {
  return [describeMoney(file), describeMoney(service)]
}

interface Money {
  readonly currency: string
  readonly amount: number
}

function describeMoney({ currency, amount }: Money): string {
  return `${currency} ${formatMinor(BigInt(amount), currencyExponent(currency))}`
}

function differencesIn(
  { line }: LedgerInvoice,
  record: string,
  fields: readonly (readonly [field: string, file: string, service: string])[],
): Difference[] {
  return fields
    .filter(([, file, service]) => file !== service)
    .map(([field, file, service]) => ({ line, record, field, file, service }))
}

function isOpenOrPaid(status: string): boolean {
  return status === 'paid' || OPEN_STATUSES.includes(status)
}

function emptyTotals(): Totals {
  return { invoices: 0, invoiced: 0n, payments: 0, paid: 0n, open: 0n }
}

function addInvoice(totals: Totals, { amount, settledOn }: LedgerInvoice): void {
  totals.invoices++
  totals.invoiced += BigInt(amount)
  if (settledOn === undefined) {
    totals.open += BigInt(amount)
  } else {
    totals.payments++
    totals.paid += BigInt(amount)
  }
}

function addInvoiceRecord(
  totals: Totals,
  { amount, amount_due: due, status }: InvoiceRecord,
): void {
  totals.invoices++
  totals.invoiced += BigInt(amount)
  if (OPEN_STATUSES.includes(status)) totals.open += BigInt(due)
}

function addPaymentRecord(totals: Totals, { amount }: PaymentRecord): void {
  totals.payments++
  totals.paid += BigInt(amount)
}
