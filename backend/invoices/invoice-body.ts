import { list, metadata, object, optional, required, requiredWithout } from '../validation/body.ts'
import {
  amount,
  boolean,
  calendarDate,
  currency,
  externalId,
  httpsUrl,
  matching,
  objectId,
  oneOf,
  text,
} from '../validation/fields.ts'
import type { NewInvoice } from './invoices.ts'
import { type LineBody, lineBody, newLine } from './line-body.ts'

export interface InvoiceBody {
  readonly debtor_id?: string
  readonly debtor_external_id?: string
  readonly number?: string
  readonly external_id?: string
  readonly currency: string
  readonly amount?: number
  readonly line_items?: readonly LineBody[]
  readonly issue_date?: string
  readonly due_date?: string
  readonly status?: 'draft' | 'open'
  readonly po_number?: string
  readonly notes?: string
  readonly payment_url?: string
  readonly chase_if_overdue?: boolean
  readonly metadata?: Record<string, string>
}

const poNumber = text({ max: 64, min: 0 })
const notes = text({ max: 2000, min: 0, multiline: true })

export const invoiceBody = object<InvoiceBody>({
  debtor_id: optional(objectId),
  // The id may be malformed, e.g. contain spaces: no debtor has such an id, so the error is `debtor_not_found`.
  debtor_external_id: optional(text({ max: 128 })),
  number: optional(matching(/\S/, 'text that is not blank', { max: 64 })),
  external_id: optional(externalId),
  currency: required(currency),
  amount: requiredWithout('line_items', amount),
  line_items: optional(list(lineBody, { max: 200 })),
  issue_date: optional(calendarDate),
  due_date: optional(calendarDate),
  status: optional(oneOf(['draft', 'open'])),
  po_number: optional(poNumber),
  notes: optional(notes),
  payment_url: optional(httpsUrl),
  chase_if_overdue: optional(boolean),
  metadata,
}).xor('debtor_id', 'debtor_external_id')

export type InvoiceEditBody = Pick<InvoiceBody, 'due_date' | 'po_number' | 'notes' | 'payment_url'>

export const invoiceEditBody = object<InvoiceEditBody>({
  due_date: optional(calendarDate),
  po_number: optional(poNumber),
  notes: optional(notes),
  payment_url: optional(httpsUrl),
})

export function newInvoice(body: InvoiceBody): NewInvoice {
  return {
    debtor:
      body.debtor_id === undefined
        ? // The schema requires one of the two, so this is never ''.
          { externalId: body.debtor_external_id ?? '' }
        : { id: body.debtor_id },
    number: body.number ?? null,
    externalId: body.external_id ?? null,
    currency: body.currency,
    amount: body.amount,
    lines: (body.line_items ?? []).map(newLine),
    issueDate: body.issue_date ?? null,
    dueDate: body.due_date ?? null,
    status: body.status ?? 'open',
    // An empty text is stored as null.
    poNumber: body.po_number || null,
    notes: body.notes || null,
    paymentUrl: body.payment_url ?? null,
    chaseIfOverdue: body.chase_if_overdue ?? true,
    metadata: body.metadata ?? {},
  }
}
