/** Shared parts of the pages of customers, invoices and payments. */
import type { Balance } from '../../debtors/balances.ts'
import { type Html, html } from '../../html/html.ts'
import { renderMoney } from '../shell/ledger-words.ts'

export const CUSTOMER_TABS = [
  { path: '/settings/customers', name: 'Customers' },
  { path: '/settings/invoices', name: 'Invoices' },
  { path: '/settings/payments', name: 'Payments' },
]

/** Renders a sum for each currency. */
export function renderSums(
  balances: readonly Balance[],
  of: 'outstanding' | 'overdue' | 'unapplied',
): Html {
  const some = balances.filter((balance) => balance[of] > 0)
  if (some.length === 0) return html`<span class="hint">–</span>`
  return html`${some.map((balance) => html`<span class="sum${of === 'overdue' && ' late'}">${renderMoney(balance[of], balance.currency)}</span>`)}`
}
