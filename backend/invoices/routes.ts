import { listOperation } from '../api/list.ts'
import type { Operation } from '../api/operation.ts'
import { readOperation } from '../api/read.ts'
import { writeOperation } from '../api/write.ts'
import { todayIn } from '../calendar/calendar.ts'
import { list, metadata, object, optional, required, requiredWithout } from '../validation/body.ts'
import {
  amount,
  boolean,
  calendarDate,
  currency,
  currencyFilter,
  externalId,
  matching,
  oneOf,
  parsed,
  reference,
  severalOf,
  text,
} from '../validation/fields.ts'
import { listInvoices } from './invoice-list.ts'
import { createInvoice, findInvoice, type NewInvoice } from './invoices.ts'
import { type LineBody, lineBody, newLine } from './line-body.ts'
import { renderInvoice } from './representation.ts'

interface InvoiceBody {
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

const invoiceBody = object<InvoiceBody>({
  debtor_id: optional(reference),
  debtor_external_id: optional(text({ max: 128 })),
  number: optional(matching(/\S/, 'text that is not blank', { max: 64 })),
  external_id: optional(externalId),
  currency: required(currency),
  amount: requiredWithout('line_items', amount),
  line_items: list(lineBody, { max: 200 }).empty(null),
  issue_date: optional(calendarDate),
  due_date: optional(calendarDate),
  status: optional(oneOf(['draft', 'open'])),
  po_number: optional(text({ max: 64, min: 0 })),
  notes: optional(text({ max: 2000, min: 0, lines: true })),
  payment_url: optional(parsed(parseHttpsUrl, 'an https address', { max: 2048 })),
  chase_if_overdue: optional(boolean),
  metadata,
}).xor('debtor_id', 'debtor_external_id')

const FILTERS = {
  external_id: text({ max: 128 }),
  debtor_id: reference,
  number: text({ max: 64 }),
  status: severalOf(['draft', 'open', 'partially_paid', 'paid', 'void', 'written_off']),
  currency: currencyFilter,
  overdue: parsed(
    (value) => (value === 'true' || value === 'false' ? value === 'true' : undefined),
    'true or false',
  ),
  due_since: calendarDate,
  due_before: calendarDate,
}

export const invoiceOperations: readonly Operation[] = [
  listOperation({
    operationId: 'listInvoices',
    sorts: ['created_at', 'updated_at', 'due_date'],
    filters: FILTERS,
    find(reader, { caller: { account }, now }, filters, page) {
      return listInvoices(reader, account.id, filters, todayIn(account.timezone, now), page)
    },
    async render(_reader, { caller: { account }, now }, rows) {
      const today = todayIn(account.timezone, now)
      return rows.map((row) => renderInvoice(row, today))
    },
  }),
  readOperation({
    operationId: 'getInvoice',
    async read(reader, { caller: { account }, id, now }) {
      const row = await findInvoice(reader, account.id, id)
      return row && renderInvoice(row, todayIn(account.timezone, now))
    },
  }),
  writeOperation({
    operationId: 'createInvoice',
    body: invoiceBody,
    idempotencyKey: 'optional',
    originalMember: 'original_id',
    async create(tx, { caller: { account }, now }, body) {
      const { id: accountId, timezone, paymentTermsDays } = account
      const owner = { accountId, timezone, paymentTermsDays }
      const row = await createInvoice(tx, owner, newInvoice(body), now)
      return { id: row.id, representation: renderInvoice(row, todayIn(timezone, now)) }
    },
  }),
]

function parseHttpsUrl(value: string): string | undefined {
  return value.startsWith('https://') && !/\s/.test(value) && URL.canParse(value)
    ? value
    : undefined
}

function newInvoice(body: InvoiceBody): NewInvoice {
  return {
    debtor:
      body.debtor_id === undefined
        ? { externalId: body.debtor_external_id ?? '' }
        : { id: body.debtor_id },
    number: body.number ?? null,
    externalId: body.external_id ?? null,
    currency: body.currency,
    amount: body.amount,
    lines: (body.line_items ?? []).map(newLine),
    issueDate: body.issue_date ?? null,
    dueDate: body.due_date ?? null,
    status: body.status ?? 'open',
    // An empty text is none.
    poNumber: body.po_number || null,
    notes: body.notes || null,
    paymentUrl: body.payment_url ?? null,
    chaseIfOverdue: body.chase_if_overdue ?? true,
    metadata: body.metadata ?? {},
  }
}
