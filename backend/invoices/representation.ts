import type { InvoiceRow } from '../database/tables.ts'
import { currencyExponent } from '../money/money.ts'
import { daysPastDue } from './overdue.ts'

/**
 * The JSON of an invoice in the API, in events, in Settings and in the CLI. `today` is the current date in the
 * account's time zone.
 */
export function representInvoice(row: InvoiceRow, today: string) {
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
    amount_credited: row.amount_credited,
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
    revision: row.revision,
  }
}
