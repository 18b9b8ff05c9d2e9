import type { DueByAge } from '../../debtors/due-totals.ts'
import { type Html, html } from '../../html/html.ts'
import { renderMoney } from '../shell/ledger-words.ts'

export const CUSTOMER_TABS = [
  { path: '/settings/customers', name: 'Customers' },
  { path: '/settings/invoices', name: 'Invoices' },
  { path: '/settings/payments', name: 'Payments' },
]

/** Renders the amounts that archived customers owe, e.g. `€1,234.50 owed by archived customers`, with a link. */
export function renderArchivedDue(archived: readonly DueByAge[]): Html {
  const amounts = archived.map(
    ({ outstanding, currency }, index) =>
      html`${index > 0 && ' · '}${renderMoney(outstanding.amount, currency)}`,
  )
  return html`${amounts} owed by <a href="/settings/customers?view=archived">archived customers</a>`
}
