import type { MessageRow } from '../database/tables.ts'
import { currencyExponent } from '../money/money.ts'
import { maskRecipient, previewOf } from './shown-text.ts'

/** The JSON of a message in the API, events, Settings and the command line. */
export function representMessage(row: MessageRow, invoiceIds: readonly string[]) {
  return {
    object: 'message',
    id: row.id,
    debtor_id: row.debtor_id,
    invoice_ids: invoiceIds,
    channel: row.channel,
    direction: row.direction,
    kind: row.kind,
    stage: row.stage,
    // Clients do not see that a worker has begun to send the message.
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
    sent_at: row.status === 'sending' ? null : row.sent_at,
    created_at: row.created_at,
    updated_at: row.updated_at,
    revision: row.revision,
  }
}

function renderApproval(row: MessageRow) {
  if (row.approval_required === 0) return null
  return {
    required: true,
    status: row.approval_status ?? 'pending',
    decided_by: labelOf(row.approval_decided_by),
    decided_at: row.approval_decided_at,
  }
}

/** `decidedBy` is the JSON of the actor who decided. */
function labelOf(decidedBy: string | null): string | null {
  if (decidedBy === null) return null
  const { label }: { label: string } = JSON.parse(decidedBy)
  return label
}
