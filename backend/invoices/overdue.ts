/** Being overdue is derived from status, due date and today; it is never stored. */
import { daysBetween } from '../calendar/calendar.ts'
import type { InvoiceRow } from '../database/tables.ts'

/** Days since the due date at `today`; 0 if the invoice is not overdue. */
export function daysPastDue(row: InvoiceRow, today: string): number {
  const isOpen = row.status === 'open' || row.status === 'partially_paid'
  return isOpen && row.due_date < today ? daysBetween(row.due_date, today) : 0
}
