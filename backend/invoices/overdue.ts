import { daysBetween } from '../calendar/calendar.ts'
import type { InvoiceRow } from '../database/tables.ts'

/** Returns for how many days the invoice has been overdue at `today`; 0 if it is not. This is never stored. */
export function daysPastDue(row: InvoiceRow, today: string): number {
  const isOpen = row.status === 'open' || row.status === 'partially_paid'
  return isOpen && row.due_date < today ? daysBetween(row.due_date, today) : 0
}
