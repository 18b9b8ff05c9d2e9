import type { InvoiceRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import { dateWords, renderMoney } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'

export function renderFinalise(frame: Frame, row: InvoiceRow, customerName: string, today: string) {
  const path = `/settings/invoices/${row.id}`
  const consequences: Html = html`<p><strong translate="no">${customerName}</strong> owes <strong>${renderMoney(row.amount, row.currency)}</strong>
from now on. The invoice is due on ${dateWords(row.due_date)}. ${
    row.due_date < today
      ? 'This date has passed: unless reminders are blocked, they begin in the next business hours.'
      : 'If the invoice is not paid, reminders are sent according to the schedule.'
  }</p>
<p>This cannot be undone. If you find a mistake later, you can change, credit or void the invoice.</p>`
  return renderConfirmPage(frame, {
    title: `Finalize invoice ${row.number}?`,
    section: '/settings/customers',
    back: { path, name: `Invoice ${row.number}` },
    consequences,
    action: `${path}/finalise`,
    button: 'Finalize',
  })
}
