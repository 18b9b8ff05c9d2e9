/** Reads all debtors, invoices and payments of the account from the API, page by page. */
import joi from 'joi'
import type {
  DebtorRecord,
  InvoiceRecord,
  PaymentRecord,
  ServiceRecords,
} from '../../import/records.ts'
import { type Api, ImportStopped } from './api.ts'

/** The API's maximum. */
export const PAGE_SIZE = 200

const text = joi.string().required()
const externalId = joi.string().allow(null).required()
const amount = joi.number().integer().required()

// Unknown members are accepted, because the API may add members to responses at any time.
const debtorSchema = joi.object({ id: text, external_id: externalId }).unknown()
const invoiceSchema = joi
  .object({
    ...{ id: text, external_id: externalId, debtor_id: text, number: text, currency: text },
    ...{ amount, amount_due: amount, issue_date: text, due_date: text, status: text },
  })
  .unknown()
const paymentSchema = joi
  .object({
    ...{ id: text, external_id: externalId, currency: text, amount, received_on: text },
    status: text,
    allocations: joi
      .array()
      .items(joi.object({ invoice_id: text }).unknown())
      .required(),
  })
  .unknown()

/** `onPage` receives the number of records of each page. */
export async function readServiceRecords(
  api: Api,
  onPage: (count: number) => void,
): Promise<ServiceRecords> {
  const debtors = await listAll<DebtorRecord>(api, 'debtors', debtorSchema, onPage)
  // Every invoice and payment has a debtor: without debtors there is nothing to list.
  if (debtors.length === 0) return { debtors, invoices: [], payments: [] }
  return {
    debtors,
    invoices: await listAll<InvoiceRecord>(api, 'invoices', invoiceSchema, onPage),
    payments: await listAll<PaymentRecord>(api, 'payments', paymentSchema, onPage),
  }
}

/** Lists the oldest first, so that records created in the meantime come last and do not shift the pages. */
async function listAll<T>(
  api: Api,
  resource: string,
  recordSchema: joi.ObjectSchema,
  onPage: (count: number) => void,
): Promise<T[]> {
  const pageSchema = joi
    .object<{ data: T[]; has_more: boolean; next_cursor: string | null }, true>({
      data: joi.array().items(recordSchema).required(),
      has_more: joi.boolean().required(),
      next_cursor: joi.string().allow(null).required(),
    })
    .unknown()
  const records: T[] = []
  for (let cursorParameter = ''; ; ) {
    const path = `/api/v1/${resource}?sort=created_at&limit=${PAGE_SIZE}${cursorParameter}`
    const { value: page, error } = pageSchema.validate(await api.get(path), { convert: false })
    if (error !== undefined) {
      throw new ImportStopped(
        `The list of ${resource} does not match the API's documentation: ${error.message}.`,
      )
    }
    records.push(...page.data)
    onPage(page.data.length)
    if (!page.has_more || page.next_cursor === null) return records
    cursorParameter = `&cursor=${encodeURIComponent(page.next_cursor)}`
  }
}
