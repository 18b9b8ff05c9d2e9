/**
 * Creates missing records with concurrent requests: a debtor before its invoices, an invoice before its
 * payment.
 */
import { createHash } from 'node:crypto'
import { debtorBodyOf, invoiceBodyOf, paymentBodyOf } from '../../import/bodies.ts'
import type { ColumnHeaders } from '../../import/columns.ts'
import type { RowWithMissingRecords } from '../../import/comparison.ts'
import type { LedgerCustomer } from '../../import/ledger.ts'
import {
  customerFields,
  describeFieldErrors,
  INVOICE_FIELDS,
  type MemberFields,
} from '../../import/rejected-fields.ts'
import { type Api, ImportStopped, type Json } from './api.ts'

export interface RejectedRecord {
  /** E.g. `customer C-1` or `line 7, invoice 0000611365`. */
  readonly record: string
  readonly code: string
  readonly detail: string
}

/** The numbers of records that this run created, and the records that the service rejected. */
export interface ImportOutcome {
  debtors: number
  invoices: number
  payments: number
  readonly rejected: RejectedRecord[]
}

export interface PostingOptions {
  readonly api: Api
  /** The headers of the file's columns, which rejections name. */
  readonly headers: ColumnHeaders
  readonly customers: readonly LedgerCustomer[]
  /** The rows whose invoice or payment the service does not have yet. */
  readonly rows: readonly RowWithMissingRecords[]
  readonly concurrency: number
  readonly chaseOverdue: boolean
  /** Called once for each record that was sent, whether the service created it, had it already or rejected it. */
  readonly onRecordSent: () => void
}

/**
 * The import stops after this many rejections, because they usually have the same cause, and each of them
 * counts against the hourly limit.
 */
const REJECTED_MAX = 100

/**
 * Each payment directly follows its invoice. If the import is interrupted, at most `concurrency` of the invoices that
 * it has created are therefore open although they are paid according to the file. Reminders could be sent about these.
 */
export async function postMissing(options: PostingOptions): Promise<ImportOutcome> {
  const { api, headers, customers, rows, concurrency, chaseOverdue, onRecordSent } = options
  const outcome: ImportOutcome = { debtors: 0, invoices: 0, payments: 0, rejected: [] }

  /** Returns the id of the new or existing record; undefined if the service rejected it. */
  async function post(
    kind: 'debtors' | 'invoices' | 'payments',
    record: string,
    body: Json & { readonly external_id: string },
    /** The fields of the file from which the members of `body` come, so that a rejection can name the column. */
    fields: MemberFields,
  ): Promise<string | undefined> {
    const path = `/api/v1/${kind}`
    const response = await api.post(path, idempotencyKey(kind, body.external_id), body)
    onRecordSent()
    if (response.status === 201 && !response.replayed) outcome[kind]++
    const { status, body: problem } = response
    // With another code, such as `duplicate_invoice_number`, `existing_id` is the id of another record, possibly of
    // another customer. A payment must not be recorded on it.
    const isExisting = problem['code'] === 'duplicate_external_id'
    const id = status === 201 ? response.body['id'] : isExisting && problem['existing_id']
    if (typeof id === 'string') return id
    const code = String(problem['code'] ?? status)
    const detail =
      describeFieldErrors(problem['errors'], fields, headers) ?? String(problem['detail'] ?? status)
    outcome.rejected.push({ record, code, detail })
    if (outcome.rejected.length < REJECTED_MAX) return undefined
    throw new ImportStopped(
      `The service rejected ${REJECTED_MAX} records. The last was ${record}: ${detail}`,
    )
  }

  const rejectedCustomers = new Set<string>()
  await inParallel(customers, concurrency, async (customer) => {
    const id = await post(
      'debtors',
      `customer ${customer.id}`,
      debtorBodyOf(customer),
      customerFields(customer),
    )
    if (id === undefined) rejectedCustomers.add(customer.externalId)
  })
  await inParallel(rows, concurrency, async ({ invoice, invoiceId, canRecordPayment }) => {
    // The invoices of a rejected customer are not sent. Only the rejection of the customer is reported.
    if (rejectedCustomers.has(invoice.customerExternalId)) return
    const name = `line ${invoice.line}, invoice ${invoice.number}`
    const invoiceBody = invoiceBodyOf(invoice, chaseOverdue)
    const id = invoiceId ?? (await post('invoices', name, invoiceBody, INVOICE_FIELDS))
    if (id === undefined || !canRecordPayment) return
    await post('payments', `${name}, its payment`, paymentBodyOf(invoice, id), INVOICE_FIELDS)
  })
  return outcome
}

/**
 * The key is the same in every run, so that the service recognizes a request that succeeded in an earlier run, even if
 * that run received no response.
 */
function idempotencyKey(kind: string, externalId: string): string {
  // The API accepts at most 255 visible ASCII characters. With at most 200 for the id, the prefix always fits.
  const isAllowed = /^[!-~]{1,200}$/.test(externalId)
  const name = isAllowed ? externalId : createHash('sha256').update(externalId).digest('hex')
  return `import-${kind}-${name}`
}

/** After the first failure, the other workers finish their current items. Then the failure is thrown. */
async function inParallel<T>(
  items: readonly T[],
  workers: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values()
  const failures: unknown[] = []
  async function processQueue(): Promise<void> {
    for (const item of queue) {
      if (failures.length > 0) return
      await work(item).catch((error: unknown) => failures.push(error))
    }
  }
  await Promise.all(Array.from({ length: workers }, processQueue))
  if (failures.length > 0) throw failures[0]
}
