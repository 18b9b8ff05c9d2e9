import { allColumns } from './all-columns.ts'
import type { Bit } from './bit.ts'

/** The stages of reminders about past-due invoices, in the order in which they are sent. */
export const REMINDER_STAGES = ['friendly', 'reminder', 'firm', 'final'] as const

export type ReminderStage = (typeof REMINDER_STAGES)[number]

export type MessageStatus =
  | 'scheduled'
  | 'awaiting_approval'
  | 'approved'
  | 'queued'
  | 'sending'
  | 'sent'
  | 'delivered'
  | 'bounced'
  | 'failed'
  | 'suppressed'
  | 'cancelled'
  | 'received'

export interface MessageRow {
  id: string
  account_id: string
  debtor_id: string
  channel: 'email' | 'sms' | 'letter' | 'call'
  direction: 'outbound' | 'inbound'
  kind: 'reminder' | 'invoice_copy' | 'receipt' | 'statement' | 'reply'
  /** Null for a courtesy reminder, and for a message that is not a reminder. */
  stage: ReminderStage | null
  /** `sending` (leased to a worker) is shown to clients as `queued`. */
  status: MessageStatus
  suppression_reason: string | null
  suppression_detail: string | null
  approval_required: Bit
  /**
   * `expired`: no person decided in time. `lapsed`: the message was cancelled or suppressed, so a decision has no
   * effect. But an approved message remains `approved` if it is suppressed for another reason than a payment.
   */
  approval_status: 'pending' | 'approved' | 'rejected' | 'lapsed' | 'expired' | null
  /** JSON object {type, id, label}. */
  approval_decided_by: string | null
  approval_decided_at: string | null
  /** The address in clear text. The API returns it masked. */
  recipient: string | null
  subject: string | null
  body: string | null
  /**
   * The sum that the message demands. The sum and `currency` are null if the invoices have several currencies, and for
   * replies.
   */
  amount_due: number | null
  currency: string | null
  /**
   * The number of days from the earliest due date of the invoices to the day on which the text was written, or on which
   * the message was planned if it has no text yet. Null for replies.
   */
  days_past_due: number | null
  provider_message_id: string | null
  delivered_at: string | null
  bounce_type: 'hard' | 'soft' | null
  bounce_code: string | null
  /**
   * The number of retries after transient rejections. When no retry is left, such a rejection is treated as permanent.
   */
  soft_bounces: number
  scheduled_for: string | null
  sent_at: string | null
  created_at: string
  updated_at: string
  /** Starts at 1; see `revision.ts`. */
  revision: number
}

export const MESSAGE_COLUMNS = allColumns<MessageRow>({
  id: true,
  account_id: true,
  debtor_id: true,
  channel: true,
  direction: true,
  kind: true,
  stage: true,
  status: true,
  suppression_reason: true,
  suppression_detail: true,
  approval_required: true,
  approval_status: true,
  approval_decided_by: true,
  approval_decided_at: true,
  recipient: true,
  subject: true,
  body: true,
  amount_due: true,
  currency: true,
  days_past_due: true,
  provider_message_id: true,
  delivered_at: true,
  bounce_type: true,
  bounce_code: true,
  soft_bounces: true,
  scheduled_for: true,
  sent_at: true,
  created_at: true,
  updated_at: true,
  revision: true,
})

export interface MessageInvoiceRow {
  message_id: string
  position: number
  account_id: string
  invoice_id: string
}

export interface MessageTables {
  messages: MessageRow
  message_invoices: MessageInvoiceRow
}
