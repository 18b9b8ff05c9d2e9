/** Rows of invoices. */
import type { Bit } from './bit.ts'
import type { ReminderStage } from './messages.ts'

export type InvoiceStatus = 'draft' | 'open' | 'partially_paid' | 'paid' | 'void' | 'written_off'

export interface InvoiceRow {
  id: string
  account_id: string
  debtor_id: string
  number: string
  external_id: string | null
  currency: string
  amount: number
  amount_paid: number
  /** amount − amount_paid, never negative: the database refuses it. */
  amount_due: number
  /** JSON array. */
  line_items: string
  issue_date: string
  due_date: string
  /** Endpoints were told that this due date passed. Whether it is overdue, dates and status decide. */
  overdue_announced: Bit
  status: InvoiceStatus
  po_number: string | null
  notes: string | null
  payment_url: string | null
  chasing_status: 'active' | 'paused' | 'stopped'
  chasing_stage: ReminderStage | null
  chasing_next_stage: ReminderStage | null
  chasing_next_action_at: string | null
  chasing_last_message_at: string | null
  chasing_blocked_reason: string | null
  /** From 1; rises when it reopens after it was paid: its stages can be sent again. */
  chasing_cycle: number
  /** Null: not, or it was resolved. Stays while it is paid, for the payment may be reversed. */
  disputed_at: string | null
  /** Of a paid one: what held it back by a person's decision when it was paid. */
  chasing_hold: 'history' | 'approval_rejected' | null
  paid_at: string | null
  voided_at: string | null
  written_off_at: string | null
  /** JSON object. */
  metadata: string
  created_at: string
  updated_at: string
  /** From 1; rises by one with each change (see `stampOf`). */
  revision: number
}

export interface InvoiceTables {
  invoices: InvoiceRow
}
