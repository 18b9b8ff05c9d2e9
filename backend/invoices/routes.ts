import { list, metadata, object, optional, required, requiredWithout } from '../api/body.ts'
import {
  amount,
  calendarDate,
  currency,
  currencyFilter,
  externalId,
  oneOf,
  parsed,
  reference,
  severalOf,
  text,
} from '../api/fields.ts'
import { listOperation } from '../api/list.ts'
import type { Operation } from '../api/operation.ts'
import { readOperation } from '../api/read.ts'
import { writeOperation } from '../api/write.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { InvoiceRow } from '../database/tables.ts'
import { currencyExponent } from '../money/money.ts'
import {
  createInvoice,
  daysPastDue,
  findInvoice,
  listInvoices,
  type NewInvoice,
} from './invoices.ts'
import { type LineBody, lineBody, newLine } from './line-fields.ts'

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
  readonly metadata?: Record<string, string>
}

const invoiceBody = object<InvoiceBody>({
  debtor_id: optional(reference),
  debtor_external_id: optional(text({ max: 128 })),
  number: optional(text({ max: 64 })),
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
    metadata: body.metadata ?? {},
  }
}

function renderInvoice(row: InvoiceRow, today: string) {
  const pastDue = daysPastDue(row, today)
  return {
    object: 'invoice',
    id: row.id,
    debtor_id: row.debtor_id,
    number: row.number,
    external_id: row.external_id,
    currency: row.currency,
    currency_exponent: currencyExponent(row.currency),
    amount: row.amount,
    amount_paid: row.amount_paid,
    amount_due: row.amount_due,
    line_items: JSON.parse(row.line_items),
    issue_date: row.issue_date,
    due_date: row.due_date,
    status: row.status,
    is_overdue: pastDue > 0,
    days_past_due: pastDue,
    po_number: row.po_number,
    notes: row.notes,
    payment_url: row.payment_url,
    chasing: {
      status: row.chasing_status,
      stage: row.chasing_stage,
      next_stage: row.chasing_next_stage,
      next_action_at: row.chasing_next_action_at,
      last_message_at: row.chasing_last_message_at,
      blocked_reason: row.chasing_blocked_reason,
    },
    paid_at: row.paid_at,
    voided_at: row.voided_at,
    written_off_at: row.written_off_at,
    metadata: JSON.parse(row.metadata),
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}
