import type { PaymentRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { dateWords, METHOD_WORDS, renderMoney } from '../shell/ledger-words.ts'

const PATH = '/settings/payments'

export function renderPaymentStatus({ status }: PaymentRow): Html {
  return status === 'recorded'
    ? html`<span class="badge active">Recorded</span>`
    : html`<span class="badge late">Reversed</span>`
}

/** If `customerNames` (by customer id) is absent, the table has no column for the customer. */
export function renderPaymentTable(
  caption: string,
  rows: readonly PaymentRow[],
  customerNames?: ReadonlyMap<string, string>,
): Html {
  return html`<table class="records ledger dense"><caption class="unseen">${caption}</caption>
<thead><tr><th scope="col">Received on</th>${customerNames && html`<th scope="col">Customer</th>`}<th scope="col">Method</th><th scope="col">Status</th>
<th scope="col" class="amount">Amount</th></tr></thead>
<tbody>${rows.map(
    (
      row,
    ) => html`<tr><th scope="row" data-label="Received"><a href="${PATH}/${row.id}"><time datetime="${row.received_on}">${dateWords(row.received_on)}</time></a></th>
${customerNames && html`<td data-label="Customer"><a href="/settings/customers/${row.debtor_id}" translate="no">${customerNames.get(row.debtor_id)}</a></td>`}
<td data-label="Method">${METHOD_WORDS[row.method]}${row.reference !== null && html`<span class="detail" translate="no">${row.reference}</span>`}</td>
<td data-label="Status">${renderPaymentStatus(row)}</td>
<td data-label="Amount" class="amount">${row.status === 'reversed' ? html`<s>${renderMoney(row.amount, row.currency)}</s>` : renderMoney(row.amount, row.currency)}</td></tr>`,
  )}</tbody></table>`
}
