import { instant, oneOf, reference } from '../api/fields.ts'
import { listOperation } from '../api/list.ts'
import type { Call, Operation } from '../api/operation.ts'
import type { Reader } from '../database/database.ts'
import type { MessageRow } from '../database/tables.ts'
import { currencyExponent } from '../money/money.ts'
import { listMessages, readCoveredInvoices } from './messages.ts'
import { maskRecipient, previewOf } from './shown-text.ts'

const STATUSES = [
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
  debtor_id: reference,
  invoice_id: reference,
  channel: oneOf(['email', 'sms', 'letter', 'call']),
  stage: oneOf(['friendly', 'reminder', 'firm', 'final']),
  status: oneOf(STATUSES),
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
    render: renderMessages,
  }),
]

/** A worker's lease on a message is no state of its own to clients. */
function statusesShownAs(status: (typeof STATUSES)[number]): readonly string[] {
  return status === 'queued' ? ['queued', 'sending'] : [status]
}

async function renderMessages(reader: Reader, call: Call, rows: readonly MessageRow[]) {
  const ids = rows.map(({ id }) => id)
  const covered = await readCoveredInvoices(reader, call.caller.account.id, ids)
  return rows.map((row) => renderMessage(row, covered.get(row.id) ?? []))
}

function renderMessage(row: MessageRow, invoiceIds: readonly string[]) {
  return {
    object: 'message',
    id: row.id,
    debtor_id: row.debtor_id,
    invoice_ids: invoiceIds,
    channel: row.channel,
    direction: row.direction,
    kind: row.kind,
    stage: row.stage,
    status: row.status === 'sending' ? 'queued' : row.status,
    suppression:
      row.suppression_reason === null
        ? null
        : { reason: row.suppression_reason, detail: row.suppression_detail },
    approval: renderApproval(row),
    to: row.recipient === null ? null : maskRecipient(row.recipient),
    subject: row.subject,
    preview: row.body === null ? null : previewOf(row.body),
    amount_due: row.amount_due,
    currency: row.currency,
    currency_exponent: row.currency === null ? null : currencyExponent(row.currency),
    days_past_due: row.days_past_due,
    delivery: {
      provider_message_id: row.provider_message_id,
      delivered_at: row.delivered_at,
      bounce: row.bounce_type === null ? null : { type: row.bounce_type, code: row.bounce_code },
    },
    scheduled_for: row.scheduled_for,
    sent_at: row.sent_at,
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

function renderApproval(row: MessageRow) {
  if (row.approval_required === 0) return null
  return {
    required: true,
    // One that lapsed because the facts changed is over, like one that nobody gave in time.
    status: row.approval_status === 'lapsed' ? 'expired' : (row.approval_status ?? 'pending'),
    decided_by: row.approval_decided_by === null ? null : JSON.parse(row.approval_decided_by),
    decided_at: row.approval_decided_at,
  }
}
