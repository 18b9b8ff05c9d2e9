import { allColumns } from './all-columns.ts'
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
  /** The sum of the credits on the invoice. This amount is neither paid nor due. */
  amount_credited: number
  /** amount − amount_paid − amount_credited; the schema rejects negative values. */
  amount_due: number
  /** JSON array. */
  line_items: string
  issue_date: string
  due_date: string
  /**
   * Whether the worker that records `invoice.overdue` has processed the invoice since its due date passed. The worker
   * sets it even if no endpoint is subscribed to the event; a change of the due date resets it. Whether the invoice is
   * overdue depends on dates and status alone.
   */
  overdue_announced: Bit
  status: InvoiceStatus
  po_number: string | null
  notes: string | null
  payment_url: string | null
  /**
   * `stopped`: the invoice is not owed, or is an old invoice (`old-invoices.ts`). `paused`: a dispute, a rejected
   * reminder, or a payment in the last week blocks reminders. Even if `active`, reminders can be blocked for other
   * reasons (`chasing_blocked_reason`).
   */
  chasing_status: 'active' | 'paused' | 'stopped'
  /** The stage of the last reminder that was sent; a courtesy reminder does not change it. */
  chasing_stage: ReminderStage | null
  /** Null if the next reminder is a courtesy reminder, or if there is none. */
  chasing_next_stage: ReminderStage | null
  /** When the next reminder is due. While chasing is paused: when the pause ends; null if only a person can end it. */
  chasing_next_action_at: string | null
  /** When the last reminder was sent, or handed over with an unknown outcome. */
  chasing_last_message_at: string | null
  chasing_blocked_reason: string | null
  /** Starts at 1 and increases when a paid invoice reopens, so that its stages can be sent again. */
  chasing_cycle: number
  /** Null: not disputed, or resolved. Kept while the invoice is paid, because the payment may be reversed. */
  disputed_at: string | null
  /**
   * Only for a paid or disputed invoice: the reason that will block its reminders when it is owed and undisputed again.
   * `history`: the invoice was created with `chase_if_overdue: false` when it was already past due.
   */
  chasing_hold: 'history' | 'approval_rejected' | 'payment_received' | null
  /** When the block by `chasing_hold` will end; null if only a person can end it. */
  chasing_hold_until: string | null
  paid_at: string | null
  voided_at: string | null
  written_off_at: string | null
  /** JSON object. */
  metadata: string
  created_at: string
  updated_at: string
  /** Starts at 1; see `revision.ts`. */
  revision: number
}

/**
 * An invoice whose `line_items` are null if they have not been read. They can be a hundred times as large as the rest
 * of the row, and a payment needs them only for webhook events.
 */
export type InvoiceRowWithOptionalLines = Omit<InvoiceRow, 'line_items'> & {
  line_items: string | null
}

export const INVOICE_COLUMNS = allColumns<InvoiceRow>({
  id: true,
  account_id: true,
  debtor_id: true,
  number: true,
  external_id: true,
  currency: true,
  amount: true,
  amount_paid: true,
  amount_credited: true,
  amount_due: true,
  line_items: true,
  issue_date: true,
  due_date: true,
  overdue_announced: true,
  status: true,
  po_number: true,
  notes: true,
  payment_url: true,
  chasing_status: true,
  chasing_stage: true,
  chasing_next_stage: true,
  chasing_next_action_at: true,
  chasing_last_message_at: true,
  chasing_blocked_reason: true,
  chasing_cycle: true,
  disputed_at: true,
  chasing_hold: true,
  chasing_hold_until: true,
  paid_at: true,
  voided_at: true,
  written_off_at: true,
  metadata: true,
  created_at: true,
  updated_at: true,
  revision: true,
})

export interface InvoiceTables {
  invoices: InvoiceRow
}
