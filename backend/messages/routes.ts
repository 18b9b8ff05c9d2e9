import { listOperation } from '../api/list.ts'
import type { Call, Operation } from '../api/operation.ts'
import type { Reader } from '../database/database.ts'
import { REMINDER_STAGES } from '../database/tables/messages.ts'
import type { MessageRow } from '../database/tables.ts'
import { instant, objectId, oneOf } from '../validation/fields.ts'
import { listMessages, readInvoiceIdsByMessage } from './messages.ts'
import { representMessage } from './representation.ts'

const SHOWN_STATUSES = [
  'scheduled',
  'awaiting_approval',
  'approved',
  'queued',
  'sent',
  'delivered',
  'bounced',
  'failed',
  'suppressed',
  'cancelled',
  'received',
] as const

const FILTERS = {
  debtor_id: objectId,
  invoice_id: objectId,
  channel: oneOf(['email', 'sms', 'letter', 'call']),
  stage: oneOf(REMINDER_STAGES),
  status: oneOf(SHOWN_STATUSES),
  sent_since: instant,
  sent_before: instant,
}

export const messageOperations: readonly Operation[] = [
  listOperation({
    operationId: 'listMessages',
    sorts: ['created_at', 'updated_at'],
    filters: FILTERS,
    find(reader, { caller }, { status, ...others }, page) {
      const statuses = status === undefined ? {} : { statuses: statusesShownAs(status) }
      return listMessages(reader, caller.account.id, { ...others, ...statuses }, page)
    },
    represent: representMessages,
  }),
]

/** The API shows a message with the status `sending` as `queued`. */
function statusesShownAs(status: (typeof SHOWN_STATUSES)[number]): readonly string[] {
  return status === 'queued' ? ['queued', 'sending'] : [status]
}

async function representMessages(reader: Reader, call: Call, rows: readonly MessageRow[]) {
  const ids = rows.map(({ id }) => id)
  const invoiceIds = await readInvoiceIdsByMessage(reader, call.caller.account.id, ids)
  return rows.map((row) => representMessage(row, invoiceIds.get(row.id) ?? []))
}
