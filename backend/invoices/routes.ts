import { listOperation } from '../api/list.ts'
import type { Operation } from '../api/operation.ts'
import { readOperation } from '../api/read.ts'
import { writeOperation } from '../api/write.ts'
import { todayIn } from '../calendar/calendar.ts'
import {
  calendarDate,
  currencyFilter,
  objectId,
  parsed,
  severalOf,
  text,
} from '../validation/fields.ts'
import { invoiceBody, newInvoice } from './invoice-body.ts'
import { listInvoices } from './invoice-list.ts'
import { createInvoice, findInvoice } from './invoices.ts'
import { representInvoice } from './representation.ts'

const FILTERS = {
  external_id: text({ max: 128 }),
  debtor_id: objectId,
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
    async represent(_reader, { caller: { account }, now }, rows) {
      const today = todayIn(account.timezone, now)
      return rows.map((row) => representInvoice(row, today))
    },
  }),
  readOperation({
    operationId: 'getInvoice',
    find: (reader, { accountId, id }) => findInvoice(reader, accountId, id),
    represent: (row, { caller, now }) =>
      representInvoice(row, todayIn(caller.account.timezone, now)),
  }),
  writeOperation({
    operationId: 'createInvoice',
    body: invoiceBody,
    idempotencyKey: 'optional',
    originalIdMember: 'original_id',
    async create(tx, { caller: { account }, now }, body) {
      const { id: accountId, timezone, paymentTermsDays } = account
      const owner = { accountId, timezone, paymentTermsDays }
      const row = await createInvoice(tx, owner, newInvoice(body), now)
      return { id: row.id, representation: representInvoice(row, todayIn(timezone, now)) }
    },
  }),
]
