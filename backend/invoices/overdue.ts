import { daysBetween } from '../calendar/calendar.ts'
import type { InvoiceRow } from '../database/tables.ts'

/** Returns how many days the invoice is past due on `today`; 0 if it is not overdue. */
export function daysPastDue(row: Pick<InvoiceRow, 'status' | 'due_date'>, today: string): number {
  const isOpen = row.status === 'open' || row.status === 'partially_paid'
  return isOpen && row.due_date < today ? daysBetween(row.due_date, today) : 0
}
